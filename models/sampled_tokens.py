#!/usr/bin/env python3
"""Writes what transformers' `generate` draws tokens from, for the test of autopar's sampling
(tests/unit/runtime/decoding/transformers_sampling.json): scores, the text so far, options, and the
probabilities that are left of each token.

    sampled_tokens.py [--cases N] [--out FILE]      the file of the test, of 60 cases
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessorList

FILE = Path(__file__).resolve().parent.parent / "tests" / "unit" / "runtime" / "decoding" / "transformers_sampling.json"
CHOICES = {
    "repetition_penalty": [1.0, 1.3, 0.7, 4.0],
    "temperature": [1.0, 0.5, 2.5],
    "top_k": [0, 0, 1, 5, 12, 100],
    "top_p": [1.0, 0.95, 0.9, 0.5, 1e-6],
}
# No sum of likely tokens comes nearer to where top_p cuts: either side might round across.
LEAST_MARGIN = 1e-5


def exact(values):
    """In digits that a float needs."""
    return [float(f"{each:.9g}") for each in values]


def any_of(values):
    return values[torch.randint(len(values), ()).item()]


def processors(options, length):
    """All of them, in the order in which `generate` has them."""
    tiny = LlamaConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=8)
    config = GenerationConfig(do_sample=True, num_beams=1, **options)
    return LlamaForCausalLM(tiny)._get_logits_processor(
        config, input_ids_seq_length=length, logits_processor=LogitsProcessorList(), device="cpu")


def margin(options, scores, text):
    """By how much the sums that top_p looks at miss its limit; the likeliest token stays anyway."""
    all_but_top_p = processors(options | {"top_p": 1.0}, len(text))
    likely = all_but_top_p(torch.tensor([text]), torch.tensor([scores]))[0].double().softmax(0)
    return (likely.sort().values[:-1].cumsum(0) - (1 - options["top_p"])).abs().min().item()


def case(tied):
    size = torch.randint(2, 60, ()).item()
    scores = 3 * torch.randn(size)
    if tied:
        scores = scores.round()
    text = torch.randint(size, (torch.randint(1, 9, ()).item(),)).tolist()
    options = {name: any_of(values) for name, values in CHOICES.items()}
    if tied:
        options["top_p"] = 1.0  # which of equal tokens go first is its sort's own affair
    scores = scores.tolist()
    if options["top_p"] < 1 and margin(options, scores, text) < LEAST_MARGIN:
        return case(tied)
    left = processors(options, len(text))(torch.tensor([text]), torch.tensor([scores]))
    likely = left[0].double().softmax(0)
    return {"scores": exact(scores), "text": text, **options, "probabilities": exact(likely.tolist())}


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--out", type=Path, default=FILE)
    wanted = parser.parse_args()
    torch.manual_seed(0)
    cases = [case(tied=number % 4 == 3) for number in range(wanted.cases)]
    wanted.out.write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")
    kept = [sum(each > 0 for each in one["probabilities"]) for one in cases]
    print(f"{wanted.out}: {wanted.out.stat().st_size} bytes; tokens kept of each: {kept}")


if __name__ == "__main__":
    main()
