"""Classifiers of images, and what denoises them."""

import diffusers
import torch
import torchvision
import transformers

from .sample import COMMON, ROWS, TOKENS, Called, Sample, noise, noise_for_tokens


def vit(**sizes):
    config = transformers.ViTConfig(num_labels=10, **COMMON, **sizes)
    return Sample(
        transformers.ViTForImageClassification(config),
        inputs={"pixel_values": noise(3, config.image_size, config.image_size)},
        outputs=["logits"], dynamic=ROWS)


def resnet(image_size=224, **sizes):
    config = transformers.ResNetConfig(num_labels=10, **sizes)
    return Sample(
        transformers.ResNetForImageClassification(config),
        inputs={"pixel_values": noise(3, image_size, image_size)},
        outputs=["logits"], dynamic=ROWS, rows=2)


def classifier(name, image_size=224, **sizes):
    """One of torchvision's."""
    model = getattr(torchvision.models, name)(weights=None, **sizes)
    return Sample(
        Called(model, lambda net, images: net(images)),
        inputs={"images": noise(3, image_size, image_size)}, outputs=["classes"], dynamic=ROWS)


def deeplab(image_size=224):
    model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Sample(
        Called(model, lambda net, images: net(images)["out"]),
        inputs={"images": noise(3, image_size, image_size)}, outputs=["classes"], dynamic=ROWS)


def vae_decoder(latents=24):
    channels = (64, 128, 256)
    model = diffusers.AutoencoderKL(
        block_out_channels=channels, layers_per_block=1, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3)
    return Sample(
        Called(model, lambda net, latents: net.decode(latents).sample),
        inputs={"latents": noise(4, latents, latents)}, outputs=["images"], dynamic=ROWS)


class Denoiser(torch.nn.Module):
    """Stable Diffusion's U-Net. Its output has another name than its input, which is `sample`, too."""

    def __init__(self, **sizes):
        super().__init__()
        self.unet = diffusers.UNet2DConditionModel(**sizes)
        self.unet.set_attn_processor(diffusers.models.attention_processor.AttnProcessor())
        self.config = self.unet.config

    def forward(self, sample, timestep, encoder_hidden_states):
        return self.unet(sample, timestep, encoder_hidden_states, return_dict=False)[0]


def unet(**sizes):
    model = Denoiser(**sizes)
    config = model.config
    return Sample(
        model,
        inputs={"sample": noise(config.in_channels, config.sample_size, config.sample_size),
                "timestep": lambda rows, tokens: torch.tensor(37).repeat(rows),
                "encoder_hidden_states": noise_for_tokens(config.cross_attention_dim)},
        outputs=["out_sample"], dynamic=ROWS, dynamic_of={"encoder_hidden_states": TOKENS})
