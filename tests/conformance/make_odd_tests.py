"""Writes variants of test folders (make_onnx_tests.py) in which one input makes no sense.

Usage: make_odd_tests.py TESTS OUT [--count N --seed S]
Each input of each test is emptied, reshaped (a scalar, one more dimension, one element shorter),
and filled with extreme numbers; `onnx_conformance --odd` runs the variants as run-time inputs and as
constants. --count draws as many of them. A variant's folder is named after the test, the input and
the change.
"""

import argparse
import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MOST_ROUNDS = 1000


def reshaped(array):
    """Name and value of each variant of another shape."""
    yield "empty", array.reshape(-1)[:0]
    yield "scalar", (array.reshape(-1)[:1] if array.size else np.zeros(1, array.dtype)).reshape(())
    yield "deeper", array[np.newaxis]
    if array.ndim > 1:
        yield "none", array[:0]
        yield "hollow", array[..., :0]
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            yield f"short{axis}", np.delete(array, -1, axis)


def extremes(dtype):
    """Name and number of each variant that holds one number alone."""
    if dtype == np.bool_:
        return [("true", True), ("false", False)]
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        numbers = {limits.min, -1, 0, 1, limits.max - 1, limits.max} - ({-1} if limits.min == 0 else set())
        return [(str(n), n) for n in sorted(numbers)]
    numbers = [0, -1, 1e30, -1e30, np.nan, np.inf, -np.inf]
    return [(str(n), n) for n in numbers]


def refilled(array, runs_loop):
    """Counts of a Loop's rounds are what it does, as many as they are: large ones are left out."""
    if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
        return  # of no number that NumPy has
    with np.errstate(all="ignore"):
        for name, number in extremes(array.dtype):
            if runs_loop and abs(float(number)) > MOST_ROUNDS:
                continue
            filled = np.full_like(array, number)
            if array.size and not np.array_equal(filled, array):
                yield name, filled


def has_open_values(model):
    """Only plain tensors can be changed."""
    return all(info.type.HasField("tensor_type") for info in [*model.graph.input, *model.graph.output])


def inputs_of(folder, model):
    """The tensors of the first data set; None for what has none."""
    tensors = []
    for i in range(len(model.graph.input)):
        file = folder / "test_data_set_0" / f"input_{i}.pb"
        tensors.append(onnx.load_tensor(file) if file.exists() else None)
    return tensors


def variants_of(folder):
    """(name, input, tensor) of each."""
    model = onnx.load(folder / "model.onnx")
    if not has_open_values(model):
        return
    runs_loop = any(node.op_type == "Loop" for node in model.graph.node)
    for i, tensor in enumerate(inputs_of(folder, model)):
        is_masked = model.graph.input[i].name.startswith("counts_")  # drawn_cases.py: of the test, not the operator
        if tensor is None or tensor.data_type == TensorProto.STRING or is_masked:
            continue
        array = numpy_helper.to_array(tensor)
        for name, value in [*reshaped(array), *refilled(array, runs_loop)]:
            yield f"{folder.name}@{i}_{name}", i, value


def write(folder, place, index, value):
    """The test with that value; what its outputs are, ask_onnx_runtime.py asks."""
    model = onnx.load(folder / "model.onnx")
    info = model.graph.input[index]
    kind = info.type.tensor_type
    del kind.shape.dim[:]
    for extent in value.shape:
        kind.shape.dim.add().dim_value = extent
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]  # shapes of the unchanged test's values
    data = place / "test_data_set_0"
    shutil.copytree(folder / "test_data_set_0", data, ignore=lambda _, names: [n for n in names if n.startswith("output")])
    onnx.save(model, place / "model.onnx")
    (data / f"input_{index}.pb").write_bytes(tensor_of(value, kind.elem_type).SerializeToString())
    limits = json.loads((folder / "data.json").read_text())
    facts = {"odd_input": index, "variant_of": str(folder.resolve())}
    (place / "data.json").write_text(json.dumps(limits | facts))


def tensor_of(value, elem_type):
    tensor = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
    if tensor.data_type != elem_type:
        tensor = helper.make_tensor("", elem_type, value.shape, value.reshape(-1).tolist())
    return tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, help="how many are drawn; all by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folders = sorted(path.parent for path in options.tests.rglob("model.onnx"))
    variants = [(folder, *variant) for folder in folders for variant in variants_of(folder)]
    if not variants:
        sys.exit(f"{options.tests} has no tests with inputs")
    if options.count:
        variants = random.Random(options.seed).sample(variants, min(options.count, len(variants)))
    shutil.rmtree(options.out, ignore_errors=True)
    for folder, name, index, value in variants:
        write(folder, options.out / name, index, value)
    print(f"{len(variants)} variants of {len(folders)} tests")


if __name__ == "__main__":
    main()
