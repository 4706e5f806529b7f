"""Draws of quantised operators.

Where a result is rounded to an integer, ONNX Runtime's kernels and an exact computation may differ
by the rounding of one number, so by one step; where nothing is rounded but once, by none."""

import numpy as np

from drawn_cases import MICROSOFT, Case

ONE_STEP = (0, 1)


def byte_kind(draw):
    return draw.choice(np.uint8, np.int8)


def scale(draw, *shape):
    return draw.positive(*shape)


def zero_point(draw, kind, *shape):
    low, high = (100, 156) if kind == np.uint8 else (-28, 28)
    return draw.integers(low, high, *shape, kind=kind)


def parameters(draw, name, kind, optional=True):
    """`name`_scale and `name`_zero_point, for all numbers."""
    zero = zero_point(draw, kind)
    return {
        f"{name}_scale": scale(draw),
        f"{name}_zero_point": draw.optional(zero, 0.8) if optional else zero,
    }


def with_zero_points(inputs, kind):
    """ONNX Runtime wants every zero point, also those that its operators say may be left out."""
    return {
        name: np.zeros((), kind) if array is None and "zero_point" in name else array
        for name, array in inputs.items()
    }


def fixed_parameters(inputs, *more):
    return (*(name for name in inputs if "scale" in name or "zero_point" in name), *more)


def quantize_linear(draw):
    kind = draw.choice(np.uint8, np.int8, np.uint16, np.int16)
    x = draw.floats(*draw.shape(1, 4), scale=3)
    attributes, shape = {}, draw.choice((), (1,))
    if draw.chance() and x.ndim > 0:
        axis = draw.integer(-x.ndim, x.ndim - 1)
        attributes, shape = {"axis": axis}, (x.shape[axis],)
    zero = zero_point(draw, kind if kind in (np.uint8, np.int8) else np.uint8, *shape).astype(kind)
    inputs = {"x": x, "y_scale": scale(draw, *shape), "y_zero_point": zero}
    if kind == np.uint8 and draw.chance(0.3):
        inputs["y_zero_point"] = None
    return Case(inputs, ["y"], attributes, maybe_fixed=fixed_parameters(inputs))


def dequantize_linear(draw):
    kind = draw.choice(np.uint8, np.int8, np.uint16, np.int16, np.int32)
    dims = draw.shape(1, 4)
    x = (
        draw.integers(0, 120, *dims, kind=kind)
        if kind == np.int32
        else draw.whole_range(*dims, kind=kind)
    )
    attributes, shape = {}, draw.choice((), (1,))
    if draw.chance():
        axis = draw.integer(-x.ndim, x.ndim - 1)
        attributes, shape = {"axis": axis}, (x.shape[axis],)
    zero = None if kind == np.int32 else draw.optional(draw.integers(0, 100, *shape, kind=kind))
    inputs = {"x": x, "x_scale": scale(draw, *shape), "x_zero_point": zero}
    return Case(inputs, ["y"], attributes, maybe_fixed=fixed_parameters(inputs))


def between(draw):
    """Shapes of two operands, one of which broadcasts."""
    kind, shape = byte_kind(draw), draw.shape(1, 4)
    names = draw.choice(("A", "B"), ("B", "A"))
    operands = {
        names[0]: draw.whole_range(*shape, kind=kind),
        names[1]: draw.whole_range(*draw.broadcast(shape), kind=kind),
    }
    inputs = {}
    for name in ("A", "B"):
        inputs |= {name: operands[name], **parameters(draw, name, kind)}
    inputs |= parameters(draw, "C", kind)
    return Case(
        inputs,
        ["C"],
        maybe_fixed=fixed_parameters(inputs, "B"),
        tolerance=ONE_STEP,
        same_as=with_zero_points(inputs, kind),
    )


def around(draw, shape, attributes=None, has_zero_points=False):
    kind = byte_kind(draw)
    inputs = {
        "X": draw.whole_range(*shape, kind=kind),
        **parameters(draw, "X", kind, not has_zero_points),
        **parameters(draw, "Y", kind, not has_zero_points),
    }
    return Case(
        inputs,
        ["Y"],
        attributes or {},
        maybe_fixed=fixed_parameters(inputs),
        tolerance=ONE_STEP,
        same_as=with_zero_points(inputs, kind),
    )


def qlinear_sigmoid(draw):
    return around(draw, draw.shape(1, 4))


def qlinear_leaky_relu(draw):
    return around(draw, draw.shape(1, 4), draw.some(alpha=draw.choice(0.1, 0.5)))


def qlinear_softmax(draw):
    shape = list(draw.shape(2, 4))
    axis = draw.integer(-len(shape), len(shape) - 1)
    shape[axis] = draw.integer(2, 6)  # of a single number ONNX Runtime makes 0
    case = around(draw, shape, {"axis": axis, "opset": draw.choice(13, 17)}, has_zero_points=True)
    y_scale = np.array(draw.choice(1 / 256, 1 / 200), np.float32)
    for inputs in (case.inputs, case.same_as):
        inputs["Y_scale"] = y_scale
    return case


def qlinear_global_average_pool(draw):
    return around(draw, draw.shape(3, 4), has_zero_points=True)


def qlinear_average_pool(draw):
    dims = draw.integer(1, 2)
    kernel = [draw.integer(1, 3) for _ in range(dims)]
    attributes = {"kernel_shape": kernel, "strides": [draw.integer(1, 3) for _ in kernel]}
    if draw.chance(0.2):
        attributes["auto_pad"] = draw.choice("VALID", "SAME_UPPER", "SAME_LOWER")
    else:
        attributes["pads"] = [draw.integer(0, k - 1) for k in kernel * 2]
    attributes |= draw.some(count_include_pad=draw.integer(0, 1), ceil_mode=draw.integer(0, 1))
    extents = [draw.integer(3, 8) for _ in kernel]
    return around(draw, (draw.integer(1, 3), draw.integer(1, 4), *extents), attributes)


def qlinear_concat(draw):
    kind, shape = byte_kind(draw), list(draw.shape(1, 4))
    axis = draw.integer(-len(shape), len(shape) - 1)
    inputs = {f"Y_{name}": array for name, array in one_scale(draw, kind).items()}
    for part in range(draw.integer(1, 4)):
        shape[axis] = draw.integer(1, 4)
        inputs[f"part_{part}"] = draw.whole_range(*shape, kind=kind)
        inputs |= {f"part_{part}_{name}": array for name, array in one_scale(draw, kind).items()}
    return Case(
        inputs, ["Y"], {"axis": axis}, maybe_fixed=fixed_parameters(inputs), tolerance=ONE_STEP
    )


def one_scale(draw, kind):
    return {"scale": scale(draw), "zero_point": zero_point(draw, kind)}


def factor_kinds(draw):
    """Of A and B: bytes of A without a sign go with any of B."""
    a = byte_kind(draw)
    return a, a if a == np.int8 else byte_kind(draw)


def qgemm(draw):
    a_kind, b_kind = factor_kinds(draw)
    m, k, n = draw.integer(1, 5), draw.integer(1, 8), draw.integer(1, 6)
    attributes = {"transA": draw.integer(0, 1), "transB": draw.integer(0, 1)}
    of_b = draw.choice((), (n,))
    c = draw.choice((), (n,), (1, n), (m, 1), (m, n))
    inputs = {
        "A": draw.whole_range(*((k, m) if attributes["transA"] else (m, k)), kind=a_kind),
        "a_scale": scale(draw),
        "a_zero_point": zero_point(draw, a_kind),
        "B": draw.weights(*((n, k) if attributes["transB"] else (k, n)), kind=b_kind),
        "b_scale": scale(draw, *of_b),
        "b_zero_point": zero_point(draw, b_kind, *of_b),
        "C": draw.optional(draw.integers(-900, 900, *c, kind=np.int32)),
        "y_scale": None,
        "y_zero_point": None,
    }
    attributes |= draw.some(alpha=draw.choice(0.5, 1.5))
    tolerance = None
    if draw.chance():
        inputs |= {"y_scale": scale(draw) * 40, "y_zero_point": zero_point(draw, a_kind)}
        inputs["y_scale"] = np.asarray(inputs["y_scale"], np.float32)
        tolerance = ONE_STEP
    return Case(
        inputs,
        ["Y"],
        attributes,
        maybe_fixed=fixed_parameters(inputs, "B", "C"),
        tolerance=tolerance,
    )


def matmul_integer_to_float(draw):
    a_kind, b_kind = factor_kinds(draw)
    m, k, n = draw.integer(1, 5), draw.integer(1, 8), draw.integer(1, 6)
    of_b = draw.choice((), (1,), (n,))
    batch = draw.shape(0, 2, 3)
    # Where B has a batch, ONNX Runtime takes the scales of its columns for others.
    has_batch = of_b != (n,) and draw.chance()
    inputs = {
        "A": draw.whole_range(*batch, m, k, kind=a_kind),
        "B": draw.weights(*(batch if has_batch else ()), k, n, kind=b_kind),
        "a_scale": scale(draw),
        "b_scale": scale(draw, *of_b),
        "a_zero_point": draw.optional(zero_point(draw, a_kind)),
        "b_zero_point": draw.optional(zero_point(draw, b_kind, *draw.choice((), of_b))),
        "bias": draw.optional(draw.floats(n)),
    }
    return Case(inputs, ["Y"], maybe_fixed=fixed_parameters(inputs, "B", "bias"))


def dynamic_quantize_matmul(draw):
    kind = byte_kind(draw)
    m, k, n = draw.integer(1, 5), draw.integer(1, 8), draw.integer(1, 6)
    of_b = draw.choice((), (1,), (n,))
    inputs = {
        "A": draw.floats(*draw.shape(0, 2, 3), m, k),
        "B": draw.weights(k, n, kind=kind),
        "b_scale": scale(draw, *of_b),
        "b_zero_point": draw.optional(zero_point(draw, kind, *of_b)),
        "bias": draw.optional(draw.floats(n)),
    }
    return Case(inputs, ["Y"], maybe_fixed=fixed_parameters(inputs, "B", "bias"))


def gather_block_quantized(draw):
    bits, block = draw.choice(4, 8), draw.choice(16, 32)
    rows, blocks = draw.integer(1, 9), draw.integer(1, 4)
    middle = draw.shape(0, 1)
    kind = draw.choice(np.float16, np.float32, np.float32)
    zeros = draw.whole_range(rows, *middle, (blocks * bits + 7) // 8)
    inputs = {
        "data": draw.whole_range(rows, *middle, blocks * block * bits // 8),
        "indices": draw.integers(
            -rows, rows - 1, *draw.shape(1, 3, 4), kind=draw.choice(np.int32, np.int64)
        ),
        "scales": draw.floats(rows, *middle, blocks, kind=kind),
        "zero_points": draw.optional(zeros),
    }
    attributes = {
        "bits": bits,
        "block_size": block,
        "gather_axis": 0,
        "quantize_axis": draw.choice(-1, 1 + len(middle)),
    }
    return Case(inputs, ["output"], attributes, maybe_fixed=("data", "scales", "zero_points"))


DRAWN = {
    (MICROSOFT, "QuantizeLinear"): quantize_linear,
    (MICROSOFT, "DequantizeLinear"): dequantize_linear,
    (MICROSOFT, "QLinearAdd"): between,
    (MICROSOFT, "QLinearMul"): between,
    (MICROSOFT, "QLinearSigmoid"): qlinear_sigmoid,
    (MICROSOFT, "QLinearLeakyRelu"): qlinear_leaky_relu,
    (MICROSOFT, "QLinearSoftmax"): qlinear_softmax,
    (MICROSOFT, "QLinearGlobalAveragePool"): qlinear_global_average_pool,
    (MICROSOFT, "QLinearAveragePool"): qlinear_average_pool,
    (MICROSOFT, "QLinearConcat"): qlinear_concat,
    (MICROSOFT, "QGemm"): qgemm,
    (MICROSOFT, "MatMulIntegerToFloat"): matmul_integer_to_float,
    (MICROSOFT, "DynamicQuantizeMatMul"): dynamic_quantize_matmul,
    (MICROSOFT, "GatherBlockQuantized"): gather_block_quantized,
}
