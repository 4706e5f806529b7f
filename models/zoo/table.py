"""Every sample model, tiny and full: what builds it, its sizes, and what writes it as ONNX."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from . import (cached, detection, encoder_decoder, exporters, linear, merged, recurrent, rewritten, sets, text,
               vision)


@dataclass
class Entry:
    build: Callable  # answers with a Sample
    sizes: dict
    way: Callable  # a function of exporters or rewritten
    tolerance: float = 1e-5  # of ONNX Runtime against PyTorch, relative to the largest value


EXPORTERS = {"torchscript": exporters.torchscript, "dynamo": exporters.dynamo}

# Weights of the tiny ones are drawn so wide that attention attends. Sizes split unevenly on purpose: a
# vocabulary of 509, four heads (not over three ranks).
WIDE = dict(initializer_range=0.2)
BERT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=144,
            vocab_size=509, max_position_embeddings=64, **WIDE)
GPT2 = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=509, n_positions=64, **WIDE)
DECODER = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
               intermediate_size=172, vocab_size=509, max_position_embeddings=64, **WIDE)
WIDE_HEADS = DECODER | dict(num_attention_heads=4, num_key_value_heads=2)  # 16, as GroupQueryAttention wants
T5 = dict(vocab_size=509, d_model=64, d_kv=16, d_ff=144, num_layers=2, num_heads=4)
WHISPER = dict(vocab_size=509, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=144, decoder_ffn_dim=144, num_mel_bins=20,
               max_source_positions=24, max_target_positions=64, pad_token_id=0, bos_token_id=1,
               eos_token_id=2, decoder_start_token_id=1, init_std=0.2)
RESNET = dict(image_size=64, embedding_size=8, hidden_sizes=[16, 32, 64, 128])
UNET = dict(sample_size=16, layers_per_block=1, block_out_channels=(12, 24), norm_num_groups=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=24,
            attention_head_dim=4)
LLAMA_160M = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
                  intermediate_size=3072)

# Through both exporters: the model `bert` is made as `bert-torchscript` and `bert-dynamo`.
TINY = {
    "bert": (text.bert, BERT),
    "gemma2": (text.gemma2, DECODER | dict(head_dim=12, query_pre_attn_scalar=12, sliding_window=6)),
    "gpt2": (text.gpt2, GPT2),
    "llama": (text.llama, DECODER),
    "llama-step": (cached.llama_step, DECODER),
    "mamba": (text.mamba, dict(hidden_size=48, num_hidden_layers=2, state_size=8, vocab_size=509, **WIDE)),
    "mixtral": (text.mixtral, DECODER | dict(
        intermediate_size=60, num_local_experts=4, num_experts_per_tok=2)),
    "mlp": (linear.mlp, dict(width=48, hidden=130)),
    "qwen2": (text.qwen2, DECODER),
    "resnet50": (vision.resnet, RESNET),
    "t5-decoder": (encoder_decoder.t5_decoder, T5),
    "t5-encoder": (encoder_decoder.t5_encoder, T5),
    "unet": (vision.unet, UNET),
    "vit": (vision.vit, dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                             intermediate_size=144, image_size=32, patch_size=8, **WIDE)),
    "whisper-decoder": (encoder_decoder.whisper_decoder, WHISPER),
    "whisper-encoder": (encoder_decoder.whisper_encoder, WHISPER),
}
REWRITTEN = {
    "bert-fused": Entry(text.bert, BERT, rewritten.fused("bert")),
    "bert-qdq": Entry(text.bert, BERT, rewritten.static_int8, 0.2),
    "bert-dynamic": Entry(text.bert, BERT, rewritten.dynamic_int8, 0.2),
    "gpt2-fused": Entry(text.gpt2, GPT2, rewritten.fused("gpt2")),
    "gpt2-step": Entry(cached.gpt2_step, GPT2, exporters.torchscript),
    "llama-4bit": Entry(text.llama, DECODER, rewritten.four_bits),
    "llama-offline": Entry(text.llama, DECODER, rewritten.offline),
    "llama-gqa": Entry(cached.llama_step, WIDE_HEADS, rewritten.grouped_attention),
    "llama-gqa-4bit": Entry(cached.llama_step, WIDE_HEADS, rewritten.grouped_attention_four_bits),
    "llama-mha": Entry(cached.llama_step, WIDE_HEADS, rewritten.multi_head_attention),
    "llama-static": Entry(cached.llama_static, DECODER | dict(length=16), exporters.dynamo),
    "resnet50-qdq": Entry(vision.resnet, RESNET, rewritten.static_int8, 0.2),
    "t5-merged": Entry(merged.t5, T5, merged.merged),
}
PYRAMID = dict(channels=16, classes=5, width=0.15)
DETECTORS = {
    "detector-faster-rcnn": Entry(detection.faster_rcnn_mobilenet, PYRAMID | dict(hidden=32),
                                  exporters.torchscript, 1e-4),
    "detector-fcos": Entry(detection.fcos, PYRAMID | dict(channels=32), exporters.torchscript, 1e-4),
    "detector-mask-rcnn": Entry(detection.mask_rcnn_mobilenet, PYRAMID | dict(hidden=32),
                                exporters.torchscript, 1e-4),
    "detector-retinanet": Entry(detection.retinanet, PYRAMID | dict(channels=32), exporters.torchscript, 1e-4),
    "detector-rt-detr": Entry(detection.rt_detr, dict(
        image_size=64, kept=15, least_score=0.486, d_model=32, num_labels=6, num_queries=20,
        backbone=dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
        encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32], encoder_layers=1, encoder_ffn_dim=48,
        encoder_attention_heads=4, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=48, decoder_layers=2,
        decoder_attention_heads=4, hidden_expansion=0.5), exporters.newer_torchscript, 1e-4),
    "detector-ssd-lite": Entry(detection.ssd_lite, dict(classes=5, width=0.1, size=96),
                               exporters.torchscript, 1e-4),
    "detector-yolo": Entry(detection.yolo, dict(image_size=64, classes=5, width=8, least_score=0.6, most=30),
                           exporters.torchscript, 1e-4),
}
FULL = {
    "bert-base": (text.bert, {}),
    "deberta-v3-base": (text.deberta, dict(
        vocab_size=128100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False,
        type_vocab_size=0)),
    "deeplab-v3": (vision.deeplab, {}),
    "densenet121": (vision.classifier, dict(name="densenet121")),
    "efficientnet-b0": (vision.classifier, dict(name="efficientnet_b0")),
    "gemma2-small": (text.gemma2, dict(
        hidden_size=768, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2, head_dim=128,
        query_pre_attn_scalar=128, intermediate_size=3072, vocab_size=32000, sliding_window=64)),
    "gpt2": (text.gpt2, {}),
    "gru": (recurrent.gru, {}),
    "inception-v3": (vision.classifier, dict(
        name="inception_v3", image_size=299, aux_logits=False, init_weights=False)),
    "llama-1.1b": (text.llama, dict(hidden_size=2048, num_hidden_layers=22, num_attention_heads=32,
                                    num_key_value_heads=4, intermediate_size=5632)),
    "llama-160m-step": (cached.llama_step, LLAMA_160M),
    "lstm": (recurrent.lstm, {}),
    "mamba-130m": (text.mamba, dict(hidden_size=768, num_hidden_layers=24)),
    "message-passing": (sets.message_passing, {}),
    "mixtral-small": (text.mixtral, dict(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=448, vocab_size=32000)),
    "mobilenet-v3": (vision.classifier, dict(name="mobilenet_v3_large")),
    "pointnet": (sets.pointnet, {}),
    "qwen2-0.5b": (text.qwen2, dict(
        hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
        intermediate_size=4864, tie_word_embeddings=True)),
    "regnet-y-800mf": (vision.classifier, dict(name="regnet_y_800mf")),
    "resnet50": (vision.resnet, {}),
    "t5-small-decoder": (encoder_decoder.t5_decoder, {}),
    "t5-small-encoder": (encoder_decoder.t5_encoder, {}),
    "unet-small": (vision.unet, UNET | dict(
        sample_size=32, layers_per_block=2, block_out_channels=(64, 128), norm_num_groups=32,
        cross_attention_dim=256, attention_head_dim=8)),
    "vae-decoder": (vision.vae_decoder, {}),
    "vit-base": (vision.vit, {}),
    "whisper-tiny-decoder": (encoder_decoder.whisper_decoder, {}),
    "whisper-tiny-encoder": (encoder_decoder.whisper_encoder, {}),
}
FULL_REWRITTEN = {
    "bert-base-dynamic": Entry(text.bert, {}, rewritten.dynamic_int8, 0.2),
    "bert-base-fused": Entry(text.bert, {}, rewritten.fused("bert")),
    "bert-base-qdq": Entry(text.bert, {}, rewritten.static_int8, 0.2),
    "gpt2-step": Entry(cached.gpt2_step, {}, exporters.torchscript),
    "llama-160m-4bit": Entry(text.llama, LLAMA_160M, rewritten.four_bits),
    "llama-160m-gqa": Entry(cached.llama_step, LLAMA_160M, rewritten.grouped_attention, 5e-3),
    "llama-160m-gqa-4bit": Entry(
        cached.llama_step, LLAMA_160M, rewritten.grouped_attention_four_bits, 5e-3),
    "llama-160m-mha": Entry(cached.llama_step, LLAMA_160M, rewritten.multi_head_attention),
    "resnet50-qdq": Entry(vision.resnet, {}, rewritten.static_int8, 0.2),
}


def with_exporters(models):
    return {f"{name}-{exporter}": Entry(*model, way)
            for name, model in models.items() for exporter, way in EXPORTERS.items()}


def tiny():
    """Tiny models by the names of their folders."""
    return with_exporters(TINY) | REWRITTEN | DETECTORS


def full():
    """Many layers add up more rounding errors than the tiny ones' tolerance allows."""
    return {name: replace(entry, tolerance=max(entry.tolerance, 1e-3))
            for name, entry in (with_exporters(FULL) | FULL_REWRITTEN).items()}
