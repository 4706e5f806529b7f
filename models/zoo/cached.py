"""A decoder's step: new tokens beside a cache of keys and values that grows with them."""

import torch
import transformers

from .sample import COMMON, TOKENS, Sample, seeded, token_ids

NEW = 1  # token
KINDS = ("key", "value")
ALL = {0: "batch", 1: "all_sequence"}
PAST = {0: "batch", 2: "past_sequence"}
PRESENT = {0: "batch", 2: "all_sequence"}


class Step(torch.nn.Module):
    """The cache comes and goes as one tensor for each layer's keys and values."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, input_ids, attention_mask, position_ids=None, **past):
        layers = range(self.config.num_hidden_layers)
        pairs = [[past[f"past_key_values.{layer}.{what}"] for what in KINDS] for layer in layers]
        cache = transformers.DynamicCache(pairs, config=self.config)
        result = self.model(input_ids=input_ids, attention_mask=attention_mask,
                            position_ids=position_ids, past_key_values=cache, use_cache=True)
        present = [each for layer in result.past_key_values.layers for each in (layer.keys, layer.values)]
        return result.logits, *present


def llama_step(**sizes):
    config = transformers.LlamaConfig(**COMMON, **sizes)
    heads, width = config.num_key_value_heads, config.head_dim
    names = [f"{layer}.{what}" for layer in range(config.num_hidden_layers) for what in KINDS]
    past = [f"past_key_values.{name}" for name in names]
    present = [f"present.{name}" for name in names]

    def cached(number):
        return lambda rows, tokens: torch.randn(rows, heads, tokens, width, generator=seeded(number))

    return Sample(
        Step(transformers.LlamaForCausalLM(config)),
        inputs={
            "input_ids": lambda rows, tokens: token_ids(config.vocab_size)(rows, NEW),
            "attention_mask": lambda rows, tokens: torch.ones(rows, tokens + NEW, dtype=torch.int64),
            "position_ids": lambda rows, tokens: torch.arange(tokens, tokens + NEW).repeat(rows, 1),
            **{name: cached(number) for number, name in enumerate(past)},
        },
        outputs=["logits", *present], dynamic=TOKENS,
        dynamic_of={"attention_mask": ALL} | {name: PAST for name in past}
        | {name: PRESENT for name in present})
