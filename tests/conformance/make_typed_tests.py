"""Writes tests of operators in the types and forms that neither ONNX's node tests nor the tests of
kernels that every device runs have, as folders for onnx_conformance, with what NumPy says.

Usage: make_typed_tests.py OUT
So that each kernel that is compiled for a type of its own is launched by some test: `scripts/gpu_check`
lists those that are not. Types that ONNX's schema of an operator leaves out, though kernels serve
them, are tested beside the kernels (tests/unit/runtime/kernels/elementwise/unusual_types_test.cpp).
"""

import math
import shutil
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from make_onnx_tests import write
from onnx import helper, numpy_helper

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIGNED = tuple(map(np.dtype, ("int8", "int16", "int32", "int64")))
UNSIGNED = tuple(map(np.dtype, ("uint8", "uint16", "uint32", "uint64")))
INTEGERS = SIGNED + UNSIGNED
HALVES = (np.dtype("float16"), BFLOAT16)
FLOATS = (*map(np.dtype, ("float32", "float64")), *HALVES)
NUMBERS = FLOATS + INTEGERS
SMALL_FLOATS = tuple(np.dtype(getattr(ml_dtypes, name)) for name in (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"))
SMALL_INTEGERS = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int4", "uint4", "int2", "uint2"))
SCALES = np.dtype(ml_dtypes.float8_e8m0fnu)
# Relative, of what is computed in a type: some units in its last place.
TOLERANCES = {"float64": 1e-7, "float32": 1e-5, "float16": 4e-3, "bfloat16": 2**-6}


class Tests:
    """Folders of one place, each of one node."""

    def __init__(self, out):
        self.out, self.random = out, np.random.default_rng(7)

    def add(self, name, op_type, inputs, outputs, constants=(), domain="", nodes=None, **attributes):
        """`inputs` and `outputs` are arrays; `constants`, places of inputs, are part of the model.
        `nodes`, if there are several, read x0, x1 ... and write y0, y1 ..."""
        names = [f"x{i}" for i in range(len(inputs))]
        results = [f"y{i}" for i in range(len(outputs))]
        nodes = nodes or [helper.make_node(op_type, names, results, domain=domain, **attributes)]
        given = [i for i in range(len(inputs)) if i not in constants]
        graph = helper.make_graph(
            nodes, name, [value_info(names[i], inputs[i]) for i in given],
            [value_info(result, output) for result, output in zip(results, outputs)],
            [numpy_helper.from_array(inputs[i], names[i]) for i in constants])
        opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
        if domain:
            opsets.append(helper.make_opsetid(domain, 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=onnx.IR_VERSION)
        tolerance = max(TOLERANCES.get(output.dtype.name, 0) for output in outputs)
        write(self.out / f"test_{name}", model, [([inputs[i] for i in given], outputs)], tolerance,
              tolerance)

    def small(self, shape, dtype, low=1, high=6):
        """Whole numbers that every type has."""
        least = -high + 1 if low == 1 and np.dtype(dtype) in SIGNED + FLOATS else low
        return self.random.integers(least, high, shape).astype(dtype)


def value_info(name, array):
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def is_allowed(op_type, dtype):
    """By ONNX's schema, as the type of the first input."""
    schema = onnx.defs.get_schema(op_type)
    word = schema.inputs[0].type_str
    name = helper.tensor_dtype_to_string(helper.np_dtype_to_tensor_dtype(dtype))
    wanted = f"tensor({name.removeprefix('TensorProto.').lower()})"
    return any(wanted in constraint.allowed_type_strs for constraint in schema.type_constraints
               if constraint.type_param_str == word)


def allowed(op_type):
    return [dtype for dtype in NUMBERS if is_allowed(op_type, dtype)]


def name_of(*dtypes):
    return "_".join(np.dtype(dtype).name for dtype in dtypes)


REDUCTIONS = {
    "ReduceSum": lambda x: x.sum(1), "ReduceMean": lambda x: x.mean(1),
    "ReduceProd": lambda x: x.prod(1), "ReduceMax": lambda x: x.max(1),
    "ReduceMin": lambda x: x.min(1), "ReduceSumSquare": lambda x: (x * x).sum(1),
    "ReduceL1": lambda x: abs(x).sum(1), "ReduceL2": lambda x: np.sqrt((x * x).sum(1)),
    "ReduceLogSum": lambda x: np.log(x.sum(1)),
    "ReduceLogSumExp": lambda x: np.log(np.exp(x).sum(1)),
}


def add_reductions(tests):
    """Rows of 4, which take a thread each, and of 100, which take a block: sums fit into 8 bits, no
    result but an exact one is near a whole number, where integers are cut."""
    for length in (4, 100):
        rows = np.ones((3, length))
        rows[1] = np.arange(length) % 25 == 0
        rows[2] = 0
        rows[2, :2] = 3, 4
        for op_type, reduce in REDUCTIONS.items():
            for dtype in allowed(op_type):
                expected = reduce(rows)[:, None]
                if dtype in INTEGERS:
                    expected = np.trunc(expected)
                tests.add(f"{op_type.lower()}_{length}_{name_of(dtype)}", op_type,
                          [rows.astype(dtype), np.array([1])], [expected.astype(dtype)], [1])


def add_scans(tests):
    """Along the last dimension, a block a row, and along the first, a thread a row."""
    for dtype in allowed("CumSum"):
        for axis in (0, 1):
            x = np.where(tests.random.integers(0, 2, (6, 40)), 1, 2)
            tests.add(f"cumsum_{axis}_{name_of(dtype)}", "CumSum", [x.astype(dtype), np.array(axis)],
                      [np.cumsum(x, axis).astype(dtype)], [1])
        x = np.where(np.arange(12).reshape(3, 4) % 3, 1, 2)
        tests.add(f"cumprod_{name_of(dtype)}", "CumProd", [x.astype(dtype), np.array(1)],
                  [np.cumprod(x, 1).astype(dtype)], [1])


def add_one_hot(tests):
    words = tuple(map(np.dtype, ("uint8", "float16", "float32", "int64", "complex128")))
    for index in (*SIGNED, *UNSIGNED, np.dtype("float32"), np.dtype("float64")):
        for word in words:
            places = np.array([[0, 3, 1], [4, 2, 2]])
            expected = np.where(places[..., None] == np.arange(5), 7, 2)
            tests.add(f"onehot_{name_of(index, word)}", "OneHot",
                      [places.astype(index), np.array(5), np.array([2, 7]).astype(word)],
                      [expected.astype(word)], [1])


def add_scatters(tests):
    for dtype in NUMBERS:
        data, updates = tests.small((4, 6), dtype), tests.small((3, 6), dtype)
        places = tests.random.integers(0, 4, (3, 6))
        expected = data.copy()
        np.add.at(expected, (places, np.arange(6)), updates)
        tests.add(f"scatterelements_add_{name_of(dtype)}", "ScatterElements",
                  [data, places, updates], [expected], axis=0, reduction="add")
        rows = np.array([[2], [0], [2]])
        expected = data.copy()
        np.add.at(expected, rows[:, 0], updates)
        tests.add(f"scatternd_add_{name_of(dtype)}", "ScatterND", [data, rows, updates], [expected],
                  reduction="add")


def add_movements(tests):
    """What moves by words of 1 to 16 bytes, and as transposed tiles of each element size."""
    for dtype in map(np.dtype, ("uint8", "int16", "float32", "int64", "complex128")):
        x = tests.small((2, 5, 7), dtype)
        tests.add(f"trilu_{name_of(dtype)}", "Trilu", [x], [np.tril(x)], upper=0)
        x = tests.small((5, 3, 2), dtype)
        lengths = np.array([5, 1, 3])
        expected = x.copy()
        for column, length in enumerate(lengths):
            expected[:length, column] = x[:length, column][::-1]
        tests.add(f"reversesequence_{name_of(dtype)}", "ReverseSequence", [x, lengths], [expected])
    for dtype in map(np.dtype, ("uint8", "int16", "float32", "int64")):
        x = tests.small((3, 64, 48), dtype)
        tests.add(f"transpose_tiles_{name_of(dtype)}", "Transpose", [x], [x.transpose(0, 2, 1)],
                  perm=[0, 2, 1])
        x = tests.small((5, 1), dtype)
        tests.add(f"expand_rows_{name_of(dtype)}", "Expand", [x, np.array([5, 64])],
                  [np.broadcast_to(x, (5, 64)).copy()], [1])
        x = tests.small((6, 32), dtype)
        rows = np.array([[4], [0], [5]])
        tests.add(f"gathernd_rows_{name_of(dtype)}", "GatherND", [x, rows], [x[rows[:, 0]]])
        updates = tests.small((3, 32), dtype)
        expected = x.copy()
        expected[rows[:, 0]] = updates
        tests.add(f"scatternd_rows_{name_of(dtype)}", "ScatterND", [x, rows, updates], [expected])


def add_resizes(tests):
    for dtype in map(np.dtype, ("uint8", "int8", "float16", "float32", "float64", "complex64",
                                "complex128")):
        x = tests.small((1, 2, 3, 4), dtype)
        sizes = np.array([1, 2, 6, 8])
        empty = np.zeros(0, np.float32)
        tests.add(f"resize_nearest_{name_of(dtype)}", "Resize", [x, empty, empty, sizes],
                  [x.repeat(2, 2).repeat(2, 3)], [1, 2, 3], mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        roi = np.array([0, 0, 0, 0, 1, 1, 2, 1], np.float32)
        cropped = np.full((1, 2, 5, 4), 3, dtype)  # beyond the image from its last row on
        cropped[:, :, :3] = x[:, :, [0, 1, 2]]
        tests.add(f"resize_crop_{name_of(dtype)}", "Resize",
                  [x, roi, empty, np.array([1, 2, 5, 4])], [cropped], [1, 2, 3], mode="nearest",
                  coordinate_transformation_mode="tf_crop_and_resize", nearest_mode="floor",
                  extrapolation_value=3.0)


def add_products(tests):
    """Of one row and of few, by weights that lie either way; and an activation behind each."""
    for dtype in (np.dtype("float32"), *HALVES):
        for rows in (1, 3):
            for by_columns in (False, True):
                x, w = tests.small((rows, 64), dtype), tests.small((64, 96), dtype)
                exact = x.astype(np.float64) @ w.astype(np.float64)
                given = np.ascontiguousarray(w.T) if by_columns else w
                tests.add(f"gemm_{rows}_{'columns' if by_columns else 'rows'}_{name_of(dtype)}",
                          "Gemm", [x, given], [exact.astype(dtype)], [1], transB=int(by_columns))
    for dtype in FLOATS:
        x, w = tests.small((2, 8, 16), dtype), tests.small((2, 16, 8), dtype)
        exact = x.astype(np.float64) @ w.astype(np.float64)
        nodes = [helper.make_node("MatMul", ["x0", "x1"], ["product"]),
                 helper.make_node("Gelu", ["product"], ["y0"])]
        expected = exact * (1 + np.vectorize(math.erf)(exact / math.sqrt(2))) / 2
        tests.add(f"matmul_gelu_{name_of(dtype)}", None, [x, w], [expected.astype(dtype)],
                  nodes=nodes)


def add_quantised(tests):
    """From and to every narrow type, with scales of every type: multiples of the scale, exact."""
    for narrow in (*SMALL_FLOATS, *SMALL_INTEGERS, *map(np.dtype, ("int8", "uint8", "int16", "uint16"))):
        values = np.array([[0, 1, 1, 0], [1, 0, 1, 1]])
        zero = np.zeros((), narrow)
        for wide in (np.dtype("float32"), *HALVES, np.dtype("int32")):
            scale = np.array(2).astype(wide)
            tests.add(f"quantize_{name_of(wide, narrow)}", "QuantizeLinear",
                      [(2 * values).astype(wide), scale, zero], [values.astype(narrow)])
        for wide in (np.dtype("float32"), *HALVES):
            scale = np.array(0.5).astype(wide)
            tests.add(f"dequantize_{name_of(narrow, wide)}", "DequantizeLinear",
                      [values.astype(narrow), scale, zero], [(0.5 * values).astype(wide)])
    values = np.array([-7, 0, 250, 90000])
    for wide in (np.dtype("float32"), *HALVES):
        tests.add(f"dequantize_{name_of('int32', wide)}", "DequantizeLinear",
                  [values.astype(np.int32), np.array(0.5).astype(wide)], [(0.5 * values).astype(wide)])


def add_casts(tests):
    """To 8-bit floats, from every type; and back."""
    narrow = np.dtype(ml_dtypes.float8_e4m3fn)
    values = np.array([0, 1, 2, 3, 4, 5])
    for wide in NUMBERS:
        tests.add(f"cast_{name_of(wide, narrow)}", "Cast", [values.astype(wide)],
                  [values.astype(narrow)], to=int(onnx.TensorProto.FLOAT8E4M3FN))
        tests.add(f"cast_{name_of(narrow, wide)}", "Cast", [values.astype(narrow)],
                  [values.astype(wide)], to=int(helper.np_dtype_to_tensor_dtype(wide)))
    powers = np.array([0.5, 1, 2, 64])
    for wide in (np.dtype("float32"), *HALVES):
        tests.add(f"cast_{name_of(SCALES, wide)}", "Cast", [powers.astype(SCALES)],
                  [powers.astype(wide)], to=int(helper.np_dtype_to_tensor_dtype(wide)))


def add_mathematics(tests):
    for dtype in FLOATS:
        x = tests.small((3, 4, 4), dtype, high=4)
        expected = np.linalg.det(x.astype(np.float64))
        tests.add(f"det_{name_of(dtype)}", "Det", [x], [expected.astype(dtype)])
    for dtype in FLOATS:
        for length in (12, 1500):  # by a matrix, and beyond what one is made for
            x = tests.small((1, length, 1), dtype)
            transformed = np.fft.fft(x[..., 0].astype(np.float64), axis=1)
            expected = np.stack([transformed.real, transformed.imag], -1)
            tests.add(f"dft_{length}_{name_of(dtype)}", "DFT", [x, np.array(length), np.array(1)],
                      [expected.astype(dtype)], [1, 2])


def add_random(tests):
    """Of random numbers onnx_conformance compares types and shapes alone."""
    for dtype in FLOATS:
        code = int(helper.np_dtype_to_tensor_dtype(dtype))
        like = np.zeros((3, 5), np.float32)
        for op_type in ("RandomNormalLike", "RandomUniformLike"):
            tests.add(f"{op_type.lower()}_{name_of(dtype)}", op_type, [like], [like.astype(dtype)],
                      dtype=code, seed=1.0)
        for out in NUMBERS:
            tests.add(f"bernoulli_{name_of(dtype, out)}", "Bernoulli", [like.astype(dtype)],
                      [like.astype(out)], dtype=int(helper.np_dtype_to_tensor_dtype(out)), seed=1.0)
        for out in (np.dtype("int32"), np.dtype("int64")):
            logs = np.log(np.full((2, 4), 0.25)).astype(dtype)
            tests.add(f"multinomial_{name_of(dtype, out)}", "Multinomial", [logs],
                      [np.zeros((2, 6), out)], sample_size=6, seed=1.0,
                      dtype=int(helper.np_dtype_to_tensor_dtype(out)))


def add_images(tests):
    """ConvTranspose in every type, grouped and with strides."""
    for dtype in FLOATS:
        x, w = tests.small((2, 4, 3, 3), dtype, high=3), tests.small((4, 1, 2, 2), dtype, high=3)
        expected = np.zeros((2, 2, 6, 6))
        for group in (0, 1):
            for channel in (2 * group, 2 * group + 1):
                for dy, dx in np.ndindex(2, 2):
                    expected[:, group, dy::2, dx::2] += (
                        x[:, channel].astype(np.float64) * float(w[channel, 0, dy, dx]))
        tests.add(f"convtranspose_{name_of(dtype)}", "ConvTranspose", [x, w],
                  [expected.astype(dtype)], group=2, strides=[2, 2])
        empty = np.zeros((2, 0, 3, 3), dtype)
        bias = tests.small((2,), dtype)
        tests.add(f"convtranspose_without_channels_{name_of(dtype)}", "ConvTranspose",
                  [empty, np.zeros((0, 2, 2, 2), dtype), bias],
                  [np.broadcast_to(bias[:, None, None], (2, 2, 4, 4)).copy()])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    warnings.simplefilter("ignore")  # integers that are cut
    tests = Tests(out)
    for add in (add_reductions, add_scans, add_one_hot, add_scatters, add_movements, add_resizes,
                add_products, add_quantised, add_casts, add_mathematics, add_random, add_images):
        add(tests)


if __name__ == "__main__":
    main()
