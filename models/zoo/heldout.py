"""Architectures that no test has: what a release is tried on (models/heldout.py).

Their weights are drawn anew, so that what goes in decides what comes out: initial weights of 0.02
let most of a model vanish beside its embeddings, and whatever vanishes cannot be wrong.
"""

import diffusers
import timm
import torch
import torchvision
import transformers

from .encoder_decoder import longer
from .sample import (COMMON, ROWS, TOKENS, Called, Sample, noise, noise_for_tokens, padded_end, seeded,
                     token_ids)

VOCABULARY = 509
IMAGE = 32
DECODED = {0: "batch", 1: "decoded"}

# Sizes split unevenly on purpose: a vocabulary of 509, four heads (not over three ranks).
WIDTHS = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=144)
TEXT = WIDTHS | dict(vocab_size=VOCABULARY, max_position_embeddings=64)
GROUPED = TEXT | dict(num_key_value_heads=2)
IMAGES = WIDTHS | dict(image_size=IMAGE, patch_size=8)
SEQUENCES = dict(vocab_size=VOCABULARY, d_model=64, encoder_layers=2, decoder_layers=2,
                 encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=144,
                 decoder_ffn_dim=144, max_position_embeddings=64)
T5 = dict(vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=144, num_layers=2, num_heads=4)
SPEECH = WIDTHS | dict(
    vocab_size=32, conv_dim=(24, 24), conv_kernel=(10, 3), conv_stride=(5, 2), num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4, num_feat_extract_layers=2)
EXPERTS = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, n_group=2,
               topk_group=1, first_k_dense_replace=1, n_shared_experts=1, kv_lora_rank=16,
               q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, head_dim=8,
               num_key_value_heads=4, experts_implementation="batched_mm")


def redraw(sample):
    """Weights that keep the size of what goes through them; nothing stays a constant."""
    model = sample.model
    generator = torch.Generator().manual_seed(11)
    drawn = set()
    for module in model.modules():
        for name in ("weight", "bias"):
            weight = getattr(module, name, None)
            if not isinstance(weight, torch.nn.Parameter) or id(weight) in drawn:
                continue
            drawn.add(id(weight))
            noise_like = torch.randn(weight.shape, generator=generator)
            if isinstance(module, torch.nn.Embedding):
                weight.copy_(noise_like)
            elif weight.dim() > 1:
                weight.copy_(noise_like / weight[0].numel() ** 0.5)
            else:
                weight.add_(0.2 * noise_like)
    for weight in model.parameters():
        if id(weight) not in drawn:
            weight.add_(0.2 * torch.randn(weight.shape, generator=generator))
    measure_statistics(sample)


def measure_statistics(sample):
    """The statistics that normalisations keep become those of a run: with any others, what goes
    through a deep network fades away."""
    sample.model.eval()
    norms = [module for module in sample.model.modules()
             if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    sample.model(**dict(zip(sample.inputs, sample.draw(sample.inputs, 4, 16), strict=True)))
    sample.model.eval()


def make(family, kind, sizes, **more):
    """The class of transformers that the family's name and the kind make, of a small configuration."""
    config = getattr(transformers, f"{family}Config")(**COMMON, **more, **sizes)
    return getattr(transformers, f"{family}{kind}")(config)


def text(family, kind="Model", outputs=("last_hidden_state",), **more):
    def build(**sizes):
        return Sample(
            make(family, kind, sizes, **more),
            inputs={"input_ids": token_ids(VOCABULARY), "attention_mask": padded_end},
            outputs=list(outputs), dynamic=TOKENS)

    return build


def decoder(family, kind="ForCausalLM", inputs=("input_ids", "attention_mask")):
    def build(**sizes):
        sample = text(family, kind, ["logits"], use_cache=False)(**sizes)
        sample.inputs = {name: sample.inputs[name] for name in inputs}
        sample.not_for_dynamo = ("attention_mask",)  # it writes the whole causal mask as a tangle
        return sample

    return build


def deepseek_v2(**sizes):
    """Its rotary embedding in real numbers: neither exporter writes complex ones."""
    modeling = transformers.models.deepseek_v2.modeling_deepseek_v2

    def cosines_and_sines(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq
        return torch.stack((angles.cos(), angles.sin())) * self.attention_scaling

    def turn_pairs(queries, keys, turns):
        cosines, sines = turns.unsqueeze(2).unbind()

        def turn(x):
            real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
            return torch.stack((real * cosines - imaginary * sines,
                                real * sines + imaginary * cosines), -1).flatten(-2)

        return turn(queries), turn(keys)

    modeling.DeepseekV2RotaryEmbedding.forward = cosines_and_sines
    modeling.apply_rotary_emb = turn_pairs
    return decoder("DeepseekV2")(**sizes)


def translator(family):
    """Encoder and decoder in one."""

    def build(**sizes):
        model = make(family, "ForConditionalGeneration", sizes, use_cache=False)
        return Sample(
            model,
            inputs={"input_ids": longer(token_ids(VOCABULARY)), "attention_mask": longer(padded_end),
                    "decoder_input_ids": token_ids(VOCABULARY)},
            outputs=["logits"], dynamic=TOKENS,
            dynamic_of={"decoder_input_ids": DECODED, "logits": DECODED})

    return build


def image(family, kind="ForImageClassification", outputs=("logits",), size=IMAGE, **more):
    def build(**sizes):
        return Sample(
            make(family, kind, sizes, **more), inputs={"pixel_values": noise(3, size, size)},
            outputs=list(outputs), dynamic=ROWS)

    return build


def two_towers(family, masks):
    """Images and texts, compared."""

    def build(text_config, vision_config, **sizes):
        model = make(family, "Model", sizes, text_config=text_config | COMMON,
                     vision_config=vision_config | COMMON)
        inputs = {"input_ids": lambda rows, tokens: token_ids(VOCABULARY - 3)(rows, 16),
                  "pixel_values": noise(3, IMAGE, IMAGE)}
        if masks:
            inputs["attention_mask"] = lambda rows, tokens: padded_end(rows, 16)
        return Sample(
            model, inputs=inputs, outputs=["text_embeds", "image_embeds"], dynamic=ROWS)

    return build


def speech(family, kind="Model", outputs=("last_hidden_state",)):
    def build(**sizes):
        return Sample(
            make(family, kind, sizes), inputs={"input_values": noise(480)}, outputs=list(outputs),
            dynamic=ROWS)

    return build


def whisper(**sizes):
    def call(model, input_features, decoder_input_ids):
        return model(input_features=input_features, decoder_input_ids=decoder_input_ids,
                     decoder_attention_mask=torch.ones_like(decoder_input_ids)).logits  # as in Decoder

    return Sample(
        Called(make("Whisper", "ForConditionalGeneration", sizes, use_cache=False), call),
        inputs={"input_features": noise(20, 48), "decoder_input_ids": token_ids(VOCABULARY)},
        outputs=["logits"], dynamic=TOKENS, dynamic_of={"input_features": ROWS})


def plain(model, size=IMAGE):
    """A classifier of images that knows nothing of transformers."""
    return Sample(
        Called(model, lambda net, images: net(images)), inputs={"images": noise(3, size, size)},
        outputs=["classes"], dynamic=ROWS)


def from_torchvision(name):
    return lambda **sizes: plain(getattr(torchvision.models, name)(num_classes=10, **sizes), 64)


def from_timm(name):
    return lambda **sizes: plain(timm.create_model(name, num_classes=10, **sizes), 64)


def detr(**sizes):
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage4"])
    model = make("Detr", "ForObjectDetection", sizes, use_timm_backbone=False, backbone=None,
                 use_pretrained_backbone=False, backbone_config=backbone)
    return Sample(
        model, inputs={"pixel_values": noise(3, 64, 64)}, outputs=["logits", "pred_boxes"],
        dynamic=ROWS)


def sam():
    vision = dict(hidden_size=48, output_channels=32, num_pos_feats=16, num_hidden_layers=2,
                  num_attention_heads=4, image_size=64, patch_size=8, mlp_dim=96, window_size=4,
                  global_attn_indexes=[1])
    prompt = dict(hidden_size=32, image_size=64, patch_size=8, mask_input_channels=8)
    mask = dict(hidden_size=32, mlp_dim=64, num_hidden_layers=2, num_attention_heads=4,
                iou_head_hidden_dim=32)
    return make("Sam", "Model", {}, vision_config=vision, prompt_encoder_config=prompt,
                mask_decoder_config=mask)


def sam_encoder():
    return Sample(
        sam().vision_encoder, inputs={"pixel_values": noise(3, 64, 64)},
        outputs=["last_hidden_state"], dynamic=ROWS)


def sam_decoder():
    """Points are told by their places in the image."""

    def points(rows, tokens):
        return 63 * torch.rand(rows, 1, 2, 2, generator=seeded(1))

    def call(model, image_embeddings, input_points):
        result = model(image_embeddings=image_embeddings, input_points=input_points)
        return result.pred_masks, result.iou_scores

    return Sample(
        Called(sam(), call), inputs={"image_embeddings": noise(32, 8, 8), "input_points": points},
        outputs=["pred_masks", "iou_scores"], dynamic=ROWS)


def depth_anything(**sizes):
    backbone = transformers.Dinov2Config(
        **IMAGES | dict(num_hidden_layers=4), out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False, **COMMON)
    return Sample(
        make("DepthAnything", "ForDepthEstimation", sizes, backbone_config=backbone),
        inputs={"pixel_values": noise(3, IMAGE, IMAGE)}, outputs=["predicted_depth"], dynamic=ROWS)


def sd3(**sizes):
    """Stable Diffusion 3's transformer: text and image attend to each other."""

    def call(model, latents, text_embeddings, pooled, timestep):
        return model(hidden_states=latents, encoder_hidden_states=text_embeddings,
                     pooled_projections=pooled, timestep=timestep, return_dict=False)[0]

    return Sample(
        Called(diffusers.SD3Transformer2DModel(**sizes), call),
        inputs={"latents": noise(4, 8, 8), "text_embeddings": noise_for_tokens(40),
                "pooled": noise(24), "timestep": lambda rows, tokens: torch.tensor(37.0).repeat(rows)},
        outputs=["denoised"], dynamic=ROWS, dynamic_of={"text_embeddings": TOKENS})


def dit(**sizes):
    def call(model, latents, timestep, classes):
        return model(latents, timestep=timestep, class_labels=classes, return_dict=False)[0]

    return Sample(
        Called(diffusers.DiTTransformer2DModel(**sizes), call),
        inputs={"latents": noise(4, 8, 8), "timestep": lambda rows, tokens: torch.tensor(37).repeat(rows),
                "classes": lambda rows, tokens: torch.arange(rows) + 3},
        outputs=["denoised"], dynamic=ROWS)


VAE = dict(block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1, latent_channels=4,
           down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           sample_size=32)


def vae_encoder(**sizes):
    return Sample(
        Called(diffusers.AutoencoderKL(**sizes),
               lambda model, images: model.encode(images).latent_dist.mean),
        inputs={"images": noise(3, 32, 32)}, outputs=["latents"], dynamic=ROWS)


def vae_decoder(**sizes):
    return Sample(
        Called(diffusers.AutoencoderKL(**sizes), lambda model, latents: model.decode(latents).sample),
        inputs={"latents": noise(4, 16, 16)}, outputs=["images"], dynamic=ROWS)


SWIN = dict(image_size=IMAGE, patch_size=2, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4,
            num_labels=10)

# What builds each model, and its sizes, by the name that users know.
HELDOUT = {
    "albert": (text("Albert"), TEXT | dict(embedding_size=32)),
    "bart": (translator("Bart"), SEQUENCES),
    "beit": (image("Beit"), IMAGES | dict(use_relative_position_bias=True, num_labels=10)),
    "bloom": (decoder("Bloom"), dict(vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4)),
    "clip": (two_towers("CLIP", masks=True), dict(
        text_config=TEXT | dict(eos_token_id=508), vision_config=IMAGES, projection_dim=32)),
    "cohere": (decoder("Cohere"), GROUPED | dict(use_qk_norm=True)),
    "conformer": (speech("Wav2Vec2Conformer"), SPEECH),
    "convnext": (image("ConvNext"), dict(
        image_size=IMAGE, patch_size=2, depths=[1, 1, 2, 1], hidden_sizes=[12, 24, 48, 96], num_labels=10)),
    "deberta": (text("DebertaV2"), TEXT | dict(
        relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm",
        share_att_key=True, position_biased_input=False)),
    "deepseek-v2": (deepseek_v2, TEXT | EXPERTS | dict(topk_method="group_limited_greedy")),
    "deepseek-v3": (decoder("DeepseekV3"), TEXT | EXPERTS),
    "deit": (image("DeiT"), IMAGES | dict(num_labels=10)),
    "densenet": (from_torchvision("DenseNet"), dict(
        growth_rate=8, block_config=(2, 3, 2), num_init_features=16)),
    "depth-anything": (depth_anything, dict(
        patch_size=8, reassemble_hidden_size=64, neck_hidden_sizes=[12, 24, 48, 96],
        fusion_hidden_size=16, head_hidden_size=8, reassemble_factors=[4, 2, 1, 0.5])),
    "detr": (detr, dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                        decoder_attention_heads=4, encoder_ffn_dim=72, decoder_ffn_dim=72,
                        num_queries=7, num_labels=9)),
    "dinov2": (image("Dinov2"), IMAGES | dict(num_labels=10)),
    "dit": (dit, dict(num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=8,
                      num_layers=2, sample_size=8, patch_size=2, norm_num_groups=4,
                      num_embeds_ada_norm=20)),
    "efficientnet": (from_torchvision("efficientnet_b0"), {}),
    "electra": (text("Electra"), TEXT | dict(embedding_size=32)),
    "falcon": (decoder("Falcon"), dict(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, bias=False,
        new_decoder_architecture=True, num_kv_heads=2, alibi=False)),
    "gemma": (decoder("Gemma"), GROUPED | dict(head_dim=16)),
    "gpt-j": (decoder("GPTJ"), dict(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8)),
    "gpt-neox": (decoder("GPTNeoX"), TEXT | dict(rotary_pct=0.5)),
    "granite": (decoder("Granite"), GROUPED | dict(
        embedding_multiplier=2.0, logits_scaling=1.5, residual_multiplier=0.7, attention_multiplier=0.2)),
    "hubert": (speech("Hubert"), SPEECH),
    "longt5": (translator("LongT5"), T5 | dict(local_radius=5)),
    "mistral": (decoder("Mistral"), GROUPED | dict(sliding_window=6)),
    "mobilenet-v3": (from_torchvision("mobilenet_v3_small"), {}),
    "modernbert": (text("ModernBert"), TEXT | dict(
        pad_token_id=0, local_attention=8, global_attn_every_n_layers=2)),
    "mt5": (translator("MT5"), T5 | dict(feed_forward_proj="gated-gelu")),
    "olmo": (decoder("Olmo2"), GROUPED),
    "opt": (decoder("OPT"), dict(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=144,
        max_position_embeddings=64, word_embed_proj_dim=32, do_layer_norm_before=True)),
    "pegasus": (translator("Pegasus"), SEQUENCES),
    "phi": (decoder("Phi"), TEXT | dict(partial_rotary_factor=0.5)),
    "qwen3": (decoder("Qwen3"), GROUPED | dict(head_dim=12)),
    "regnet": (from_timm("regnety_002"), {}),
    "roberta": (text("Roberta"), TEXT | dict(pad_token_id=0)),
    "rwkv": (decoder("Rwkv", inputs=("input_ids",)), dict(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, attention_hidden_size=64,
        intermediate_size=144)),
    "sam-decoder": (sam_decoder, {}),
    "sam-encoder": (sam_encoder, {}),
    "sd3": (sd3, dict(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=16,
                      num_attention_heads=4, joint_attention_dim=40, caption_projection_dim=64,
                      pooled_projection_dim=24, out_channels=4, pos_embed_max_size=8)),
    "segformer": (image("Segformer", "ForSemanticSegmentation", size=64), dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 4, 4],
        decoder_hidden_size=32, num_labels=5)),
    "siglip": (two_towers("Siglip", masks=False), dict(text_config=TEXT, vision_config=IMAGES)),
    "stablelm": (decoder("StableLm"), GROUPED | dict(partial_rotary_factor=0.5)),
    "swin": (image("Swin"), SWIN),
    "swin-v2": (image("Swinv2"), SWIN),
    "vae-decoder": (vae_decoder, VAE),
    "vae-encoder": (vae_encoder, VAE),
    "wav2vec2": (speech("Wav2Vec2", "ForCTC", ["logits"]), SPEECH),
    "whisper": (whisper, SEQUENCES | dict(
        num_mel_bins=20, max_source_positions=24, max_target_positions=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
    "xlnet": (text("XLNet", use_mems_eval=False), dict(
        vocab_size=VOCABULARY, d_model=64, n_layer=2, n_head=4, d_inner=144)),
}
