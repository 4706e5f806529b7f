"""Tensors in the files that autopar reads and writes, half types included."""

import re

import numpy as np
from onnx import TensorProto, numpy_helper

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
NAMES = {FLOAT: "float32", FLOAT16: "float16", BFLOAT16: "bfloat16"}
LARGEST = {FLOAT16: 65504.0, BFLOAT16: float(np.array(0x7F7F0000, np.uint32).view(np.float32))}


def half_bits(array, half):
    """float32 rounded to the nearest value of a half type, ties to even, as 16 bits. What is too
    large becomes the largest value: exporters write masks as the least float32."""
    array = np.clip(np.ascontiguousarray(array, np.float32), -LARGEST[half], LARGEST[half])
    if half == FLOAT16:
        return array.astype(np.float16).view(np.uint16)
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_half_bits(bits, half):
    if half == FLOAT16:
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(array, half):
    """The float32 values that are left of an array in a half type."""
    return from_half_bits(half_bits(array, half), half)


def tensor_proto(name, array, data_type):
    """float32 arrays in the given type, others as they are."""
    if array.dtype != np.float32 or data_type == FLOAT:
        return numpy_helper.from_array(array, name)
    return TensorProto(name=name, data_type=data_type, dims=array.shape,
                       raw_data=half_bits(array, data_type).tobytes())


def read_proto(path):
    """Name and array."""
    proto = TensorProto.FromString(path.read_bytes())
    return proto.name, numpy_helper.to_array(proto)


def write_inputs(folder, inputs, data_type):
    """Files of the inputs, and the options of `autopar run` that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    options = []
    for index, (name, array) in enumerate(inputs.items()):
        file = folder / f"input_{index}.pb"
        file.write_bytes(tensor_proto(name, array, data_type).SerializeToString())
        options += ["--input", f"{name}={file}"]
    return options


def output_file(folder, name):
    """Where `autopar run --output-dir` writes an output."""
    return folder / (re.sub(r"[^A-Za-z0-9.\-_]", "_", name) + ".npy")


def relative_error(expected, actual):
    """The largest difference over the largest expected magnitude; infinite for another shape."""
    if expected.shape != actual.shape:
        return float("inf")
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    scale = np.max(np.abs(expected), initial=1e-30)
    return float(np.nan_to_num(np.max(np.abs(expected - actual), initial=0) / scale, nan=np.inf))
