"""Encoders and decoders of one model, each a model of its own."""

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput

from .sample import COMMON, ROWS, TOKENS, Sample, noise, noise_for_tokens, padded_end, token_ids

ENCODED = {0: "batch", 1: "encoder_sequence"}


class Decoder(torch.nn.Module):
    """Reads what the encoder made."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, encoder_hidden_states, encoder_attention_mask=None):
        encoded = BaseModelOutput(last_hidden_state=encoder_hidden_states)
        mask = {"attention_mask": encoder_attention_mask} if encoder_attention_mask is not None else {}
        return self.model(
            decoder_input_ids=input_ids, encoder_outputs=encoded, **mask,
            decoder_attention_mask=torch.ones_like(input_ids))  # else it looks for packed texts


def longer(draw):
    """The encoder's text is longer than the decoder's."""
    return lambda rows, tokens: draw(rows, tokens + 3)


def t5_encoder(**sizes):
    config = transformers.T5Config(use_cache=False, **COMMON, **sizes)
    return Sample(
        transformers.T5EncoderModel(config),
        inputs={"input_ids": token_ids(config.vocab_size), "attention_mask": padded_end},
        outputs=["last_hidden_state"], dynamic=TOKENS)


def t5_decoder(**sizes):
    config = transformers.T5Config(use_cache=False, **COMMON, **sizes)
    return Sample(
        Decoder(transformers.T5ForConditionalGeneration(config)),
        inputs={"input_ids": token_ids(config.vocab_size),
                "encoder_hidden_states": longer(noise_for_tokens(config.d_model)),
                "encoder_attention_mask": longer(padded_end)},
        outputs=["logits"], dynamic=TOKENS,
        dynamic_of={"encoder_hidden_states": ENCODED, "encoder_attention_mask": ENCODED})


def whisper_encoder(**sizes):
    config = transformers.WhisperConfig(use_cache=False, **COMMON, **sizes)
    model = transformers.WhisperModel(config)
    return Sample(
        model.encoder,
        inputs={"input_features": noise(config.num_mel_bins, 2 * config.max_source_positions)},
        outputs=["last_hidden_state"], dynamic=ROWS)


def whisper_decoder(**sizes):
    config = transformers.WhisperConfig(use_cache=False, **COMMON, **sizes)
    return Sample(
        Decoder(transformers.WhisperForConditionalGeneration(config)),
        inputs={"input_ids": token_ids(config.vocab_size),
                "encoder_hidden_states": noise(config.max_source_positions, config.d_model)},
        outputs=["logits"], dynamic=TOKENS, dynamic_of={"encoder_hidden_states": ROWS})
