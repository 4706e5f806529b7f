"""A decoder's step: new tokens beside a cache of keys and values that grows with them."""

import torch
import transformers

from .sample import COMMON, ROWS, TOKENS, Sample, seeded, token_ids

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


class StaticStep(Step):
    """The cache is a buffer of a fixed length, into which the new tokens are put at `cache_position`,
    as transformers' StaticCache does."""

    def forward(self, input_ids, cache_position, **past):
        length = next(iter(past.values())).shape[2]
        cache = transformers.StaticCache(config=self.config, max_cache_len=length)
        for number, layer in enumerate(cache.layers):
            layer.lazy_initialization(*(past[f"past_key_values.{number}.{what}"] for what in KINDS))
            layer.keys, layer.values = (past[f"past_key_values.{number}.{what}"].clone() for what in KINDS)
            layer.cumulative_length = cache_position[0].clone()  # each layer counts by itself
        result = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True,
                            position_ids=cache_position[None])
        present = [each for layer in cache.layers for each in (layer.keys, layer.values)]
        return result.logits, *present


def cache_of(config, heads):
    """Names of what comes and goes, and what draws the former."""
    width = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    names = [f"{layer}.{what}" for layer in range(config.num_hidden_layers) for what in KINDS]

    def cached(number):
        return lambda rows, tokens: torch.randn(rows, heads, tokens, width, generator=seeded(number))

    past = {f"past_key_values.{name}": cached(number) for number, name in enumerate(names)}
    return past, [f"present.{name}" for name in names]


def gpt2_step(**sizes):
    """As optimum exports it: the model counts positions by the cache's length, and dimensions are
    called as they follow from each other."""
    config = transformers.GPT2Config(**COMMON, **sizes)
    past, present = cache_of(config, config.num_attention_heads)
    held = {0: "batch_size", 2: "past_sequence_length"}
    all_of = "past_sequence_length + sequence_length"
    return Sample(
        Step(transformers.GPT2LMHeadModel(config)),
        inputs={
            "input_ids": token_ids(config.vocab_size),
            **past,
            "attention_mask": lambda rows, tokens: torch.ones(rows, 2 * tokens, dtype=torch.int64),
        },
        outputs=["logits", *present], dynamic={0: "batch_size", 1: "sequence_length"},
        dynamic_of={"attention_mask": {0: "batch_size", 1: all_of}} | dict.fromkeys(past, held)
        | dict.fromkeys(present, {0: "batch_size", 2: all_of}))


def llama_static(length, **sizes):
    config = transformers.LlamaConfig(**COMMON, **sizes)
    past, present = cache_of(config, config.num_key_value_heads)
    return Sample(
        StaticStep(transformers.LlamaForCausalLM(config)),
        inputs={
            "input_ids": lambda rows, tokens: token_ids(config.vocab_size)(rows, NEW),
            "cache_position": lambda rows, tokens: torch.arange(length // 2, length // 2 + NEW),
            **past,
        },
        outputs=["logits", *present], dynamic=ROWS, dynamic_of={"cache_position": {}}, tokens=length)


def llama_step(**sizes):
    config = transformers.LlamaConfig(**COMMON, **sizes)
    past, present = cache_of(config, config.num_key_value_heads)
    return Sample(
        Step(transformers.LlamaForCausalLM(config)),
        inputs={
            "input_ids": lambda rows, tokens: token_ids(config.vocab_size)(rows, NEW),
            "attention_mask": lambda rows, tokens: torch.ones(rows, tokens + NEW, dtype=torch.int64),
            "position_ids": lambda rows, tokens: torch.arange(tokens, tokens + NEW).repeat(rows, 1),
            **past,
        },
        outputs=["logits", *present], dynamic=TOKENS,
        dynamic_of={"attention_mask": ALL} | {name: PAST for name in past}
        | {name: PRESENT for name in present})
