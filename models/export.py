#!/usr/bin/env python3
"""Makes the sample models: real architectures, real exporters, random weights from a fixed seed.

    export.py                        the tiny ones, into models/tiny (committed)
    export.py --full NAME --out DIR  one in full size: gpt2, bert-base, llama-1.1b, vit-base, mlp-8gb

Each model is a folder in the form of ONNX's own tests: model.onnx and test_data_set_0 with an input
and ONNX Runtime's output. Weights are drawn so wide that attention attends, and no bias is zero,
so that a wrong split shows in the output.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
EXPORTERS = ("torchscript", "dynamo")
OPSET = {"torchscript": 17, "dynamo": 20}


class Wrapper(torch.nn.Module):
    """One output tensor, inputs by position: what both exporters take."""

    def __init__(self, model, inputs, output, **fixed):
        super().__init__()
        self.model, self.inputs, self.output, self.fixed = model, inputs, output, fixed

    def forward(self, *tensors):
        result = self.model(**dict(zip(self.inputs, tensors)), **self.fixed)
        return getattr(result, self.output)


class MLP(torch.nn.Sequential):
    """Three linear layers."""

    def __init__(self, width, hidden):
        super().__init__(
            torch.nn.Linear(width, hidden), torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
            torch.nn.Linear(hidden, width),
        )

    def forward(self, *tensors):
        return super().forward(*tensors)


TOKENS = {0: "batch", 1: "sequence"}
IMAGES = {0: "batch"}
COMMON = {"attn_implementation": "eager"}


def gpt2(**sizes):
    config = transformers.GPT2Config(use_cache=False, **COMMON, **sizes)
    return transformers.GPT2LMHeadModel(config), ["input_ids", "attention_mask"], "logits", TOKENS


def bert(**sizes):
    config = transformers.BertConfig(**COMMON, **sizes)
    model = transformers.BertModel(config, add_pooling_layer=False)
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    return model, inputs, "last_hidden_state", TOKENS


def llama(**sizes):
    config = transformers.LlamaConfig(use_cache=False, **COMMON, **sizes)
    return transformers.LlamaForCausalLM(config), ["input_ids", "attention_mask"], "logits", TOKENS


def vit(**sizes):
    config = transformers.ViTConfig(num_labels=10, **COMMON, **sizes)
    return transformers.ViTForImageClassification(config), ["pixel_values"], "logits", IMAGES


# Sizes that split unevenly on purpose: a vocabulary of 509, four heads (not over three ranks).
TINY = {
    "gpt2": (gpt2, dict(n_embd=64, n_layer=2, n_head=4, vocab_size=509, n_positions=64,
                        initializer_range=0.2)),
    "bert": (bert, dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=144, vocab_size=509, max_position_embeddings=64,
                        initializer_range=0.2)),
    "llama": (llama, dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8,
                          num_key_value_heads=4, intermediate_size=172, vocab_size=509,
                          max_position_embeddings=64, initializer_range=0.2)),
    "vit": (vit, dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=144, image_size=32, patch_size=8,
                      initializer_range=0.2)),
}
FULL = {
    "gpt2": (gpt2, {}),
    "bert-base": (bert, {}),
    "llama-1.1b": (llama, dict(hidden_size=2048, num_hidden_layers=22, num_attention_heads=32,
                               num_key_value_heads=4, intermediate_size=5632)),
    "vit-base": (vit, {}),
}


def example(name, model, sequence):
    """An input of the given name as the exporters and ONNX Runtime take it."""
    generator = torch.Generator().manual_seed(7)
    config = model.config
    if name == "pixel_values":
        size = config.image_size
        return torch.randn(1, 3, size, size, generator=generator)
    if name == "input_ids":
        return torch.randint(0, config.vocab_size, (1, sequence), generator=generator)
    if name == "attention_mask":
        return torch.ones(1, sequence, dtype=torch.int64)
    if name == "token_type_ids":
        return (torch.arange(sequence) >= sequence // 2).long().unsqueeze(0)
    raise KeyError(name)


def randomise_vectors(model):
    """Biases and normalisation weights are constant at first; a test would not miss them."""
    generator = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)


def export(model, inputs, names, output, dynamic, exporter, file, embed):
    """Runs one of PyTorch's two exporters."""
    common = dict(input_names=names, output_names=[output], opset_version=OPSET[exporter])
    if exporter == "torchscript":
        axes = {name: dynamic for name in names} | {output: dynamic}
        torch.onnx.export(model, inputs, file, dynamo=False, dynamic_axes=axes, **common)
    else:
        shapes = (tuple(dict(dynamic) for _ in names),)
        torch.onnx.export(model, inputs, file, dynamo=True, dynamic_shapes=shapes,
                          external_data=not embed, verbose=False, **common)


def save_test_data(folder, inputs):
    """Writes the inputs and what ONNX Runtime makes of them."""
    data = folder / "test_data_set_0"
    data.mkdir()
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, inputs)
    for kind, tensors in (
        ("input", inputs.items()),
        ("output", zip([value.name for value in session.get_outputs()], outputs)),
    ):
        for index, (name, array) in enumerate(tensors):
            proto = numpy_helper.from_array(array, name)
            (data / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString(deterministic=True))


def make(name, build, exporter, out, sequence, embed):
    """One model through one exporter, into a new folder."""
    print(f"{name} through {exporter} into {out}", flush=True)
    torch.manual_seed(0)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if name == "mlp":
        model, names, output, dynamic = MLP(48, 130), ["x"], "y", IMAGES
        inputs = (torch.randn(5, 48, generator=torch.Generator().manual_seed(7)),)
        wrapper = model.eval()
    else:
        model, names, output, dynamic = build[0](**build[1])
        model.eval()
        if exporter == "dynamo" and build[0] in (gpt2, llama):
            names = ["input_ids"]  # then the exporter writes the whole causal mask as a tangle
        inputs = tuple(example(input_name, model, sequence) for input_name in names)
        wrapper = Wrapper(model, names, output).eval()
    randomise_vectors(model)
    with torch.no_grad():
        export(wrapper, inputs, names, output, dynamic, exporter, out / "model.onnx", embed)
    save_test_data(out, {n: tensor.numpy() for n, tensor in zip(names, inputs)})


def make_large_mlp(out, layers=32, width=8192):
    """8 GB of weights, never in memory: the data file is random blocks, one after another."""
    out.mkdir(parents=True, exist_ok=True)
    size = width * width * 4
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    with open(out / "model.data", "wb") as data:
        for layer in range(layers):
            weight = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width],
                                 data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "model.data"), ("offset", layer * size), ("length", size)):
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            for _ in range(width // 1024):
                block = generator.standard_normal((1024, width), dtype=np.float32)
                data.write(block / np.sqrt(width, dtype=np.float32))
            nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"p{layer}"], f"mm{layer}"))
            nodes.append(helper.make_node("Relu", [f"p{layer}"], [f"h{layer + 1}"], f"relu{layer}"))
    shape = ["batch", width]
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, shape)], weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (out / "model.onnx").write_bytes(model.SerializeToString())
    data = out / "test_data_set_0"
    data.mkdir(exist_ok=True)
    x = numpy_helper.from_array(generator.standard_normal((4, width), dtype=np.float32), "h0")
    (data / "input_0.pb").write_bytes(x.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", choices=[*FULL, "mlp-8gb"])
    parser.add_argument("--out", type=Path, help="folder for the full-size models")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append")
    parser.add_argument("--only", help="tiny models whose name starts so")
    options = parser.parse_args()
    exporters = options.exporter or EXPORTERS
    if options.full and not options.out:
        parser.error("--full needs --out")
    if options.full == "mlp-8gb":
        make_large_mlp(options.out / options.full)
    elif options.full:
        for exporter in exporters:
            make(options.full, FULL[options.full], exporter,
                 options.out / f"{options.full}-{exporter}", sequence=128, embed=False)
    else:
        for name, build in {**TINY, "mlp": None}.items():
            for exporter in exporters:
                if not options.only or name.startswith(options.only):
                    make(name, build, exporter, HERE / "tiny" / f"{name}-{exporter}", sequence=16,
                         embed=True)


if __name__ == "__main__":
    main()
