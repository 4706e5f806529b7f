"""Encoders and decoders of text."""

import transformers

from .sample import COMMON, ROWS, TOKENS, Sample, padded_end, second_half, token_ids


def deberta(**sizes):
    config = transformers.DebertaV2Config(**COMMON, **sizes)
    return Sample(
        transformers.DebertaV2Model(config),
        inputs={"input_ids": token_ids(config.vocab_size), "attention_mask": padded_end},
        outputs=["last_hidden_state"], dynamic=TOKENS)


def bert(**sizes):
    config = transformers.BertConfig(**COMMON, **sizes)
    return Sample(
        transformers.BertModel(config, add_pooling_layer=False),
        inputs={"input_ids": token_ids(config.vocab_size), "attention_mask": padded_end,
                "token_type_ids": second_half},
        outputs=["last_hidden_state"], dynamic=TOKENS)


def decoder(config, kind):
    """A decoder that takes a whole text at once."""
    return Sample(
        kind(config),
        inputs={"input_ids": token_ids(config.vocab_size), "attention_mask": padded_end},
        outputs=["logits"], dynamic=TOKENS,
        not_for_dynamo=("attention_mask",))  # it writes the whole causal mask as a tangle


def gpt2(**sizes):
    config = transformers.GPT2Config(use_cache=False, **COMMON, **sizes)
    return decoder(config, transformers.GPT2LMHeadModel)


def llama(**sizes):
    config = transformers.LlamaConfig(use_cache=False, **COMMON, **sizes)
    return decoder(config, transformers.LlamaForCausalLM)


def qwen2(**sizes):
    config = transformers.Qwen2Config(use_cache=False, **COMMON, **sizes)
    return decoder(config, transformers.Qwen2ForCausalLM)


def gemma2(**sizes):
    config = transformers.Gemma2Config(use_cache=False, **COMMON, **sizes)
    return decoder(config, transformers.Gemma2ForCausalLM)


def mixtral(**sizes):
    """Each token gathers the weights of its experts: transformers' loop over the experts that were
    chosen depends on data, which no exporter writes, and "grouped_mm" has no ONNX operator."""
    config = transformers.MixtralConfig(
        use_cache=False, experts_implementation="batched_mm", **COMMON, **sizes)
    return decoder(config, transformers.MixtralForCausalLM)


def mamba(**sizes):
    """Both exporters write its scan step by step, for one length."""
    config = transformers.MambaConfig(use_cache=False, use_mambapy=False, **sizes)
    return Sample(
        transformers.MambaForCausalLM(config), inputs={"input_ids": token_ids(config.vocab_size)},
        outputs=["logits"], dynamic=ROWS, tokens=8)
