"""Writes the tests that come with the installed onnx package as folders for onnx_conformance.

Usage: make_onnx_tests.py OUT
A folder a test, by kind: OUT/node, simple, pytorch-converted, pytorch-operator and light. Each has
model.onnx, test_data_set_*, and data.json with the tolerances that the test asks for. The light
models are real topologies whose weights are all constant; their input has the shape that the model
says, filled like ONNX's own runner does it.
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.model import collect_testcases as model_cases

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def transform_in_double():
    """ONNX's tests expect what numpy.fft makes of float32. NumPy 1 computed it in double; NumPy 2
    computes in float32, and where the transform is 0 leaves noise beyond the tests' tolerance."""

    def in_double(transform):
        def transformed(x, *arguments, **options):
            wide = np.asarray(x).astype(np.result_type(x, np.float64))
            return transform(wide, *arguments, **options)

        return transformed

    for name in ("fft", "ifft", "rfft", "irfft"):
        setattr(np.fft, name, in_double(getattr(np.fft, name)))


def tensor(value, info):
    """A value of a test as the message that ONNX's folders hold."""
    if isinstance(value, onnx.TensorProto):
        return value
    if info.type.HasField("map_type"):
        return numpy_helper.from_dict(value, info.name)
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(folder, model, data_sets, rtol, atol):
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    limits = {"rtol": rtol, "atol": atol}
    (folder / "data.json").write_text(json.dumps(limits))
    for number, values in enumerate(data_sets):
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        for kind, tensors, infos in zip(
            ("input", "output"), values, (model.graph.input, model.graph.output)
        ):
            for index, (value, info) in enumerate(zip(tensors, infos)):
                message = tensor(value, info)
                (place / f"{kind}_{index}.pb").write_bytes(message.SerializeToString())


def write_generated(cases, out):
    for case in cases:
        if case.model is not None:
            write(out / case.kind / case.name, case.model, case.data_sets, case.rtol, case.atol)


def copy_stored(kind, out):
    for folder in sorted((DATA / kind).iterdir()):
        if not (folder / "model.onnx").exists():
            continue
        shutil.copytree(folder, out / kind / folder.name, dirs_exist_ok=True)


def write_light(out):
    """As onnx.backend.test.runner does: the input counts up, in hundredths of a whole."""
    for path in sorted((DATA / "light").glob("light_*.onnx")):
        model = onnx.load(path)
        weights = {initializer.name for initializer in model.graph.initializer}
        info = next(i for i in model.graph.input if i.name not in weights)
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        values = (np.arange(size).reshape(shape) / size).astype(np.float32)
        expected = onnx.load_tensor(str(path).replace(".onnx", "_output_0.pb"))
        write(out / "light" / path.stem, model, [([values], [expected])], 1e-3, 1e-7)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    warnings.simplefilter("ignore")  # overflows that some tests are about
    transform_in_double()
    write_generated(node.collect_testcases(), out)
    write_generated(model_cases(), out)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        copy_stored(kind, out)
    write_light(out)


if __name__ == "__main__":
    main()
