"""Matrix products of the models' shapes alone, in a chain of some, beside torch.matmul (cuBLAS)."""

import numpy as np
from onnx import TensorProto, helper

from . import exports, tensors
from .processes import Failure, Skip
from .torch_side import TorchSide

TITLE = "Matrix products"
SHARE = 0.9  # of cuBLAS's rate
PAIRS = 8  # a pair is MxK by KxN, then MxN by NxK: a chain hides what launching it takes
# Rows, and the two widths; the model and the layer that have them.
SHAPES = {
    "gpt2-124m, attention": (8192, 768, 2304, tensors.FLOAT16),
    "gpt2-124m, mlp": (8192, 768, 3072, tensors.FLOAT16),
    "bert-large, attention": (16384, 1024, 1024, tensors.FLOAT16),
    "bert-large, mlp": (16384, 1024, 4096, tensors.FLOAT16),
    "llama-1b, attention": (2048, 2048, 2048, tensors.BFLOAT16),
    "llama-1b, mlp": (2048, 2048, 8192, tensors.BFLOAT16),
    "llama-8b, attention": (2048, 4096, 4096, tensors.BFLOAT16),
    "llama-8b, keys": (2048, 4096, 1024, tensors.BFLOAT16),
    "llama-8b, mlp": (2048, 4096, 14336, tensors.BFLOAT16),
    "llama-8b, logits": (2048, 4096, 128256, tensors.BFLOAT16),
    "gpt2-124m, logits": (8192, 768, 50257, tensors.FLOAT16),
}
SMALL = {"small": (16, 32, 48, tensors.FLOAT16)}


def write_chain(file, m, k, n, pairs, data_type):
    """An ONNX model of the chain; weights are drawn so that values neither grow nor vanish."""
    generator = np.random.default_rng(0)
    weights = []
    for name, shape in (("w", (k, n)), ("v", (n, k))):
        block = generator.standard_normal((1 << 20,), np.float32) / np.sqrt(shape[0], dtype=np.float32)
        bits = np.resize(tensors.half_bits(block, data_type), shape)
        weights.append(TensorProto(name=name, data_type=data_type, dims=shape,
                                   raw_data=bits.tobytes()))
    nodes, value = [], "x"
    for pair in range(pairs):
        nodes.append(helper.make_node("MatMul", [value, "w"], [f"a{pair}"], f"a{pair}"))
        value = "y" if pair == pairs - 1 else f"b{pair}"
        nodes.append(helper.make_node("MatMul", [f"a{pair}", "v"], [value], f"b{pair}"))
    ports = [helper.make_tensor_value_info(name, data_type, (m, k)) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights)
    opset = [helper.make_opsetid("", 18)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString())


def our_rate(context, name, m, k, n, data_type, repeat):
    folder = context.work / "products" / name.replace(", ", "-")
    write_chain(folder / "model.onnx", m, k, n, PAIRS, data_type)
    x = np.random.default_rng(1).standard_normal((m, k), np.float32)
    options = tensors.write_inputs(folder, {"x": x}, data_type)
    context.program.partition(folder / "model.onnx", folder / "bundle", 1, {}, context.timeout())
    measured, command = context.program.run_json(
        "run", "--dir", folder / "bundle", *context.program.on_device("nccl"), *options,
        "--repeat", repeat, timeout=context.timeout())
    for data in (*folder.glob("*.onnx"), *folder.glob("bundle/*.data")):
        data.unlink()
    # Timed by the GPU's events, as PyTorch's are, where there are such.
    return flops(m, k, n) / (measured["device_seconds"] or measured["seconds"]), command


def flops(m, k, n):
    return PAIRS * 4 * m * k * n


def check_one(context, torch, name, m, k, n, data_type):
    repeat = 5 if context.self_test else 30
    rate, command = our_rate(context, name, m, k, n, data_type, repeat)
    what = f"{name}: {m}x{k} by {k}x{n} and back, {tensors.NAMES[data_type]}"
    if torch is None:
        context.report.tell(what, f"{rate / 1e12:.3g} TFLOP/s", command)
        return
    answer = torch.ask(context.timeout(), do="products", m=m, k=k, n=n, pairs=PAIRS, repeat=repeat,
                       type=tensors.NAMES[data_type], device=context.torch_device())
    theirs = flops(m, k, n) / answer["seconds"]
    context.report.judge_time(
        what, f"{SHARE:.0%} of cuBLAS's rate",
        f"{rate / 1e12:.3g} TFLOP/s of {theirs / 1e12:.3g}: {rate / theirs:.0%}",
        rate / theirs >= SHARE, command)


def check(context):
    torch = None if exports.missing_packages() else TorchSide()
    try:
        for name, shape in (SMALL if context.self_test else SHAPES).items():
            if context.is_late(10):
                raise Skip(f"no time was left from '{name}' on")
            try:
                check_one(context, torch, name, *shape)
            except Failure as failure:
                context.report.fail(name, failure)
    finally:
        if torch:
            torch.stop()
