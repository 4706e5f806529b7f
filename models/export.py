#!/usr/bin/env python3
"""Makes the sample models: real architectures, real exporters, random weights from a fixed seed.

    export.py                        the tiny ones, into models/tiny (committed)
    export.py --full NAME --out DIR  one in full size: gpt2, bert-base, llama-1.1b, vit-base, mlp-8gb

Each model is a folder in the form of ONNX's own tests: model.onnx and test_data_set_0 with an input
and ONNX Runtime's output, which is checked against PyTorch. Weights of the tiny ones are drawn so
wide that attention attends, and no bias is zero, so that a wrong split shows in the output.
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
OPSET = {"torchscript": 14, "dynamo": 20}  # long the default, and the default now
TOLERANCE = 1e-5  # of ONNX Runtime against PyTorch, relative to the largest value


class Wrapper(torch.nn.Module):
    """One output tensor, inputs by position: what both exporters take."""

    def __init__(self, model, inputs, output):
        super().__init__()
        self.model, self.inputs, self.output = model, inputs, output

    def forward(self, *tensors):
        result = self.model(**dict(zip(self.inputs, tensors)))
        return result if isinstance(result, torch.Tensor) else getattr(result, self.output)


class MLP(torch.nn.Sequential):
    """Three linear layers."""

    def __init__(self, width, hidden):
        super().__init__(
            torch.nn.Linear(width, hidden), torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
            torch.nn.Linear(hidden, width),
        )
        self.width = width

    def forward(self, x):
        return super().forward(x)


TOKENS = {0: "batch", 1: "sequence"}
ROWS = {0: "batch"}
COMMON = {"attn_implementation": "eager"}

# A builder answers with the model, its inputs, its output and which dimensions are symbolic.


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
    return transformers.ViTForImageClassification(config), ["pixel_values"], "logits", ROWS


def mlp(**sizes):
    return MLP(**sizes), ["x"], "y", ROWS


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
    "mlp": (mlp, dict(width=48, hidden=130)),
}
FULL = {
    "gpt2": (gpt2, {}),
    "bert-base": (bert, {}),
    "llama-1.1b": (llama, dict(hidden_size=2048, num_hidden_layers=22, num_attention_heads=32,
                               num_key_value_heads=4, intermediate_size=5632)),
    "vit-base": (vit, {}),
}


def example(name, model, batch, sequence):
    """An input of the given name as the exporters and ONNX Runtime take it."""
    generator = torch.Generator().manual_seed(7)
    if name == "x":
        return torch.randn(batch, model.width, generator=generator)
    if name == "pixel_values":
        size = model.config.image_size
        return torch.randn(batch, 3, size, size, generator=generator)
    if name == "input_ids":
        return torch.randint(0, model.config.vocab_size, (batch, sequence), generator=generator)
    if name == "attention_mask":  # the end is padding, so that a mask that is lost shows
        return (torch.arange(sequence) < sequence - sequence // 5).long().repeat(batch, 1)
    if name == "token_type_ids":
        return (torch.arange(sequence) >= sequence // 2).long().repeat(batch, 1)
    raise KeyError(name)


def randomise_vectors(model):
    """Biases and normalisation weights are constant at first; a test would not miss them."""
    generator = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)


def export(model, inputs, names, output, dynamic, exporter, file, embed):
    """Runs one of PyTorch's two exporters. TorchScript's itself embeds weights up to 2 GB."""
    common = dict(input_names=names, output_names=[output], opset_version=OPSET[exporter])
    if exporter == "torchscript":
        axes = {name: dynamic for name in names} | {output: dynamic}
        torch.onnx.export(model, inputs, file, dynamo=False, dynamic_axes=axes, **common)
    else:
        shapes = (tuple(dict(dynamic) for _ in names),)
        torch.onnx.export(model, inputs, file, dynamo=True, dynamic_shapes=shapes,
                          external_data=not embed, verbose=False, **common)
        drop_stack_traces(file)


def drop_stack_traces(file):
    """They name the files of the machine that exported: the same model gets the same bytes anywhere."""
    model = onnx.load(file, load_external_data=False)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    file.write_bytes(model.SerializeToString(deterministic=True))


def run_checked(session, model, names, inputs):
    """ONNX Runtime's inputs and outputs by name. A trace can be wrong without a word: PyTorch must agree."""
    feeds = {name: tensor.numpy() for name, tensor in zip(names, inputs)}
    [result] = session.run(None, feeds)
    expected = model(*inputs).numpy()
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if not error < TOLERANCE:
        raise SystemExit(f"ONNX Runtime is {error:.1e} from PyTorch at {inputs[0].shape}")
    return feeds, {session.get_outputs()[0].name: result}


def save_test_data(folder, feeds, results):
    data = folder / "test_data_set_0"
    data.mkdir()
    for kind, tensors in (("input", feeds), ("output", results)):
        for index, (name, array) in enumerate(tensors.items()):
            proto = numpy_helper.from_array(array, name)
            (data / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString(deterministic=True))


@torch.no_grad()
def make(name, build, sizes, exporter, out, sequence, embed):
    """One model through one exporter. The folder `out` appears, or is replaced, whole."""
    print(f"{name} through {exporter} into {out}", flush=True)
    torch.manual_seed(0)
    model, names, output, dynamic = build(**sizes)
    if exporter == "dynamo" and build in (gpt2, llama):
        names = ["input_ids"]  # then the exporter writes the whole causal mask as a tangle
    randomise_vectors(model)
    wrapper = Wrapper(model, names, output).eval()

    def inputs(batch, length):
        return tuple(example(input_name, model, batch, length) for input_name in names)

    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    # Two rows: a trace of one row can hold for one row only, whatever its symbolic dimension says.
    export(wrapper, inputs(2, sequence), names, output, dynamic, exporter, new / "model.onnx", embed)
    session = onnxruntime.InferenceSession(new / "model.onnx", providers=["CPUExecutionProvider"])
    run_checked(session, wrapper, names, inputs(3, sequence - 5))
    rows = 5 if build is mlp else 1  # rows are all that an MLP has to split beside its weights
    save_test_data(new, *run_checked(session, wrapper, names, inputs(rows, sequence)))
    shutil.rmtree(out, ignore_errors=True)
    new.rename(out)


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
    test_data = out / "test_data_set_0"
    test_data.mkdir(exist_ok=True)
    x = numpy_helper.from_array(generator.standard_normal((4, width), dtype=np.float32), "h0")
    (test_data / "input_0.pb").write_bytes(x.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", choices=[*FULL, "mlp-8gb"])
    parser.add_argument("--out", type=Path, help="folder for the models (the tiny ones: models/tiny)")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="by default both")
    parser.add_argument("--only", default="", help="tiny models whose name starts so")
    options = parser.parse_args()
    if options.full and not options.out:
        parser.error("--full needs --out")
    if options.full == "mlp-8gb":
        make_large_mlp(options.out / options.full)
        return
    if options.full:
        chosen, sequence = {options.full: FULL[options.full]}, 128
    else:
        chosen = {name: entry for name, entry in TINY.items() if name.startswith(options.only)}
        sequence = 16
    for name, (build, sizes) in chosen.items():
        for exporter in options.exporter or EXPORTERS:
            out = (options.out or HERE / "tiny") / f"{name}-{exporter}"
            make(name, build, sizes, exporter, out, sequence, embed=not options.full)


if __name__ == "__main__":
    main()
