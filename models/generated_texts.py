#!/usr/bin/env python3
"""Writes what transformers' `generate` makes of the sample decoders, for the tests of `autopar
generate`: models/tiny/NAME/generated.json, greedy, for prompts of different lengths in one batch,
padded in front, and each alone; and with a repetition penalty, each alone, since padding counts as
a token that the text has.

    generated_texts.py [NAME...]        all decoders of text, or those whose names begin so
"""

import argparse
import json
from pathlib import Path

import torch
from zoo import making, table

HERE = Path(__file__).resolve().parent
PROMPTS = [[11, 402, 7], [5, 6], [300, 17, 44, 250, 96]]
PENALTY = 5.0
LENGTH = 64  # that the positions of the tiny ones have; and new tokens where there is no such end
# By what their names begin with.
DECODERS = {"gemma2-": LENGTH, "gpt2-torchscript": LENGTH - 5, "llama-gqa": LENGTH - 5, "llama-mha": LENGTH - 5,
            "llama-static": 11, "llama-step": LENGTH, "mixtral-": LENGTH, "qwen2-": LENGTH}


def model_of(entry):
    """As models/export.py exports it."""
    torch.manual_seed(0)
    model = entry.build(**entry.sizes).model
    making.randomise_constants(model)
    while not hasattr(model, "generate"):
        model = model.model
    return model.eval()


def generate(model, prompts, new, penalty=1.0):
    """The new tokens of each."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    # No token ends a text.
    made = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False, repetition_penalty=penalty,
                          pad_token_id=0, eos_token_id=None, bos_token_id=None)
    return made[:, width:].tolist()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    wanted = tuple(parser.parse_args().names) or ("",)
    # Weights in 4 bits are the ONNX file's alone.
    for name, entry in table.tiny().items():
        new = next((new for start, new in DECODERS.items() if name.startswith(start)), None)
        if new is None or name.endswith("-4bit") or not name.startswith(wanted):
            continue
        model = model_of(entry)
        model.generation_config.eos_token_id = None
        texts = generate(model, PROMPTS, new)
        alone = [generate(model, [prompt], new)[0] for prompt in PROMPTS]
        if texts != alone:
            raise SystemExit(f"{name}: transformers makes other texts in a batch than alone")
        penalised = [generate(model, [prompt], new, PENALTY)[0] for prompt in PROMPTS]
        out = HERE / "tiny" / name / "generated.json"
        out.write_text(json.dumps({"prompts": PROMPTS, "texts": texts, "repetition_penalty": PENALTY, "penalised": penalised}) + "\n")
        print(name, [len(set(text)) for text in texts + penalised], flush=True)


if __name__ == "__main__":
    main()
