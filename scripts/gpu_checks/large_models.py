"""The models whose speed is asked for: built from transformers' configurations with random weights,
and exported to ONNX by the exporter that models/export.py uses for the sample models.

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
    kind: str  # a function of models/export.py
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
    LargeModel("gpt2-124m", "gpt2", {}, "float16", 8, 1024),
    LargeModel("llama-8b", "llama", LLAMA_8B, "bfloat16", 1, 2048, has_step=True, is_hollow=True),
    LargeModel("bert-large", "bert", BERT_LARGE, "float16", 32, 512),
    LargeModel("llama-1b", "llama", LLAMA_1B, "bfloat16", 1, 2048, has_step=True),
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


def exporter():
    """models/export.py as a module."""
    sys.path.insert(0, str(SOURCE / "models"))
    import export

    return export


def build(model, device, attention):
    """The wrapped model, its inputs' names and which of their dimensions are symbolic. Both sides
    of a comparison build it on the CPU and get the same weights."""
    import torch

    export = exporter()
    export.COMMON["attn_implementation"] = attention
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, model.data_type))
    with torch.device(device):
        network, names, output, dynamic = getattr(export, model.kind)(**model.sizes)
    torch.set_default_dtype(torch.float32)
    if model.kind in ("gpt2", "llama"):
        names = ["input_ids"]
    return export.Wrapper(network, names, output).eval(), names, output, dynamic


def inputs(network, names, rows, tokens):
    """As models/export.py makes them: the same each time."""
    export = exporter()
    return tuple(export.example(name, network.model, rows, tokens) for name in names)


def write_with_weights(model, file):
    import torch

    export = exporter()
    with torch.no_grad():
        network, names, output, dynamic = build(model, "cpu", "eager")
        example = inputs(network, names, 2, 16)
        export.export(network, example, names, output, dynamic, "dynamo", file, embed=False)


def write_hollow(model, file):
    """Weights are one block of random numbers over and over: their values do not matter, but zeros
    would spare the GPU power."""
    import torch

    exporter()
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
