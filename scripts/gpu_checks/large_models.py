"""The models whose speed is asked for: built from transformers' configurations with random weights,
and exported to ONNX as models/export.py does it.

    python3 -m gpu_checks.large_models NAME OUT    writes OUT/model.onnx and its weights

torch and transformers are imported when a model is built: other parts of the check do without.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from .context import SOURCE


@dataclass(frozen=True, eq=False)
class LargeModel:
    name: str
    kind: str  # a function of models/zoo/text.py
    sizes: dict  # of transformers' configuration
    data_type: str
    rows: int
    tokens: int
    has_step: bool = False  # whether a run on one token is timed too
    is_hollow: bool = False  # exported without weights, which are random blocks afterwards


LLAMA_1B = dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, vocab_size=128256,
                num_key_value_heads=8, intermediate_size=8192, max_position_embeddings=8192)
LLAMA_8B = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, vocab_size=128256,
                num_key_value_heads=8, intermediate_size=14336, max_position_embeddings=8192)
BERT_LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                  intermediate_size=4096)
MODELS = {model.name: model for model in (
    # The largest last: its weights and its bundle's are 32 GB, when those of the others are gone.
    LargeModel("llama-1b", "llama", LLAMA_1B, "bfloat16", 1, 2048, has_step=True),
    LargeModel("gpt2-124m", "gpt2", {}, "float16", 8, 1024),
    LargeModel("bert-large", "bert", BERT_LARGE, "float16", 32, 512),
    LargeModel("llama-8b", "llama", LLAMA_8B, "bfloat16", 1, 2048, has_step=True, is_hollow=True),
)}
SMALL = {model.name: model for model in (  # for --self-test
    LargeModel("gpt2-small", "gpt2", dict(n_embd=64, n_layer=2, n_head=4, vocab_size=509,
                                          n_positions=64), "float16", 2, 32),
    LargeModel("llama-small", "llama", dict(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=172, vocab_size=509, max_position_embeddings=64), "bfloat16", 1, 32,
        has_step=True),
)}
BLOCK_BYTES = 1 << 26


def find(name):
    return MODELS.get(name) or SMALL[name]


def find_zoo():
    """Lets the modules of models be imported."""
    sys.path.insert(0, str(SOURCE / "models"))


def build(model, device, attention):
    """What exporters take, the sample, and the names of its inputs. Both sides of a comparison build
    it on the CPU and get the same weights."""
    import torch

    find_zoo()
    from zoo import exporters, sample, text

    sample.COMMON["attn_implementation"] = attention
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, model.data_type))
    with torch.device(device):
        made = getattr(text, model.kind)(**model.sizes)
    torch.set_default_dtype(torch.float32)
    names = exporters.dynamo_names(made)
    return sample.Wrapper(made, names), made, names


def write_with_weights(model, file):
    import torch

    find_zoo()
    from zoo import exporters

    with torch.no_grad():
        _, made, _ = build(model, "cpu", "eager")
        exporters.dynamo(made, 16, file, embed=False)


def write_hollow(model, file):
    """Weights are one block of random numbers over and over: their values do not matter, but zeros
    would spare the GPU power."""
    import torch

    find_zoo()
    import export_large

    config = export_large.transformers.LlamaConfig
    export_large.SIZES[model.name] = (config, model.sizes)
    graph = export_large.export(model.name)
    export_large.write(graph, file.parent)
    block = (0.02 * torch.randn(BLOCK_BYTES // 2)).bfloat16().view(torch.uint8).numpy().tobytes()
    end = end_of_external_data(graph)
    with open(file.with_name("model.onnx.data"), "wb") as data:
        for begin in range(0, end, BLOCK_BYTES):
            data.write(block[: end - begin])


def end_of_external_data(graph):
    """How long the file is that the weights refer to."""
    places = ({entry.key: entry.value for entry in weight.external_data}
              for weight in graph.graph.initializer if weight.external_data)
    return max(int(place["offset"]) + int(place["length"]) for place in places)


def main():
    name, out = sys.argv[1:]
    model, out = find(name), Path(out)
    out.mkdir(parents=True)
    (write_hollow if model.is_hollow else write_with_weights)(model, out / "model.onnx")


if __name__ == "__main__":
    main()
