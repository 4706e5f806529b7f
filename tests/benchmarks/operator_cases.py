"""The operators that bench_operators.py tries, on tensors of sizes that models have."""

import numpy as np

RANDOM = np.random.default_rng(0)


class Constant:
    """An input that is known before the run."""

    def __init__(self, values, dtype=None):
        self.array = np.asarray(values, dtype)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def halves(*shape):
    return floats(*shape).astype(np.float16)


def doubles(*shape):
    return floats(*shape).astype(np.float64)


def signed(*shape):
    return RANDOM.integers(-60, 60, shape).astype(np.int8)


def unsigned(*shape):
    return RANDOM.integers(0, 255, shape).astype(np.uint8)


def indices(extent, *shape):
    return RANDOM.integers(0, extent, shape).astype(np.int64)


def weights(*shape):
    return Constant(floats(*shape))


def integers(*values):
    return Constant(values, np.int64)


SCALE = Constant(0.02, np.float32)
ZERO = Constant(128, np.uint8)
NO_SHIFT = Constant(0, np.int8)
COARSE = Constant(1, np.float32)


class Case:
    """A node: what goes in, in order; None is left out."""

    def __init__(self, node):
        self.operator, tensors, self.attributes = node
        self.opset = self.attributes.pop("opset", 21)
        self.domain = self.attributes.pop("domain", "")
        self.outputs = self.attributes.pop("outputs", 1)
        self.names, self.given, self.constants = [], {}, {}
        for i, tensor in enumerate(tensors):
            self.names.append("" if tensor is None else f"x{i}")
            if isinstance(tensor, Constant):
                self.constants[f"x{i}"] = tensor.array
            elif tensor is not None:
                self.given[f"x{i}"] = tensor


OPERATORS = {}


def add(name, operator, tensors, **attributes):
    """`tensors` makes them when the case is run."""
    OPERATORS[name] = lambda: (operator, tensors(), dict(attributes))


def image():
    return floats(1, 64, 56, 56)


def recurrent(gates, directions=1):
    return [floats(50, 8, 128), Constant(floats(directions, gates * 256, 128) / 10),
            Constant(floats(directions, gates * 256, 256) / 10)]


def heads():
    return [floats(1, 12, 256, 64) for _ in range(3)]


def add_windows():
    square = dict(pads=[1] * 4)
    add("Conv 3x3", "Conv", lambda: [image(), weights(64, 64, 3, 3)], **square)
    add("Conv of a series", "Conv", lambda: [floats(1, 128, 3000), weights(128, 128, 3)], pads=[1, 1])
    add("Conv of volumes", "Conv", lambda: [floats(1, 16, 8, 56, 56), weights(32, 16, 3, 3, 3)],
        pads=[1] * 6)
    add("Conv depthwise 7x7", "Conv", lambda: [floats(1, 96, 56, 56), weights(96, 1, 7, 7)],
        pads=[3] * 4, group=96)
    add("Conv depthwise of a series", "Conv", lambda: [floats(1, 256, 1000), weights(256, 1, 31)],
        pads=[15, 15], group=256)
    add("Conv dilated", "Conv", lambda: [floats(1, 64, 48, 48), weights(64, 64, 3, 3)],
        pads=[12] * 4, dilations=[12, 12])
    add("Conv grouped", "Conv", lambda: [floats(1, 128, 28, 28), weights(128, 4, 3, 3)], group=32,
        **square)
    add("Conv of patches", "Conv", lambda: [floats(1, 3, 224, 224), weights(64, 3, 16, 16)],
        strides=[16, 16])
    add("Conv by given weights", "Conv", lambda: [image(), floats(64, 64, 3, 3)], **square)
    add("Conv float16", "Conv",
        lambda: [halves(1, 64, 28, 28), Constant(halves(64, 64, 3, 3))], **square)
    add("ConvTranspose", "ConvTranspose", lambda: [floats(1, 64, 32, 32), weights(64, 32, 4, 4)],
        strides=[2, 2], **square)
    add("ConvTranspose of a series", "ConvTranspose",
        lambda: [floats(1, 256, 400), weights(256, 128, 16)], strides=[8], pads=[4, 4])
    add("DeformConv", "DeformConv",
        lambda: [floats(1, 32, 28, 28), floats(32, 32, 3, 3), floats(1, 18, 28, 28)], opset=22, **square)
    add("Col2Im", "Col2Im", lambda: [floats(1, 576, 3136), integers(56, 56), integers(3, 3)], **square)
    add("MaxPool 3x3", "MaxPool", lambda: [image()], kernel_shape=[3, 3], strides=[2, 2], **square)
    add("MaxPool 2x2", "MaxPool", lambda: [floats(1, 64, 112, 112)], kernel_shape=[2, 2],
        strides=[2, 2])
    add("MaxPool with indices", "MaxPool", lambda: [image()], outputs=2, kernel_shape=[2, 2],
        strides=[2, 2])
    add("MaxPool of volumes", "MaxPool", lambda: [floats(1, 32, 8, 28, 28)],
        kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    add("AveragePool", "AveragePool", lambda: [image()], kernel_shape=[3, 3], **square)
    add("GlobalAveragePool", "GlobalAveragePool", lambda: [image()])
    add("LRN", "LRN", lambda: [image()], size=5)
    for mode in ("nearest", "linear", "cubic"):
        add(f"Resize {mode}", "Resize", lambda: [image(), None, Constant([1, 1, 2, 2], np.float32)],
            mode=mode)
    add("GridSample", "GridSample",
        lambda: [floats(1, 32, 64, 64), np.clip(floats(1, 64, 64, 2), -1, 1)])
    add("RoiAlign", "RoiAlign",
        lambda: [floats(1, 64, 50, 50), np.abs(floats(100, 4)) * 10, np.zeros(100, np.int64)],
        output_height=7, output_width=7, sampling_ratio=2)


def add_products():
    add("MatMul by weights", "MatMul", lambda: [floats(128, 768), weights(768, 768)])
    add("MatMul given", "MatMul", lambda: [floats(512, 512), floats(512, 512)])
    add("MatMul batched", "MatMul", lambda: [floats(96, 64, 64), floats(96, 64, 64)])
    add("MatMul of a row", "MatMul", lambda: [floats(1, 4096), weights(4096, 4096)])
    add("MatMul float64", "MatMul", lambda: [doubles(256, 256), doubles(256, 256)])
    add("MatMul int32", "MatMul",
        lambda: [signed(128, 128).astype(np.int32), signed(128, 128).astype(np.int32)])
    add("MatMul float16", "MatMul", lambda: [halves(256, 512), Constant(halves(512, 512))])
    add("Gemm of columns", "Gemm", lambda: [floats(512, 256), floats(512, 300)], transA=1)
    add("Einsum", "Einsum", lambda: [floats(8, 12, 64, 32), floats(8, 12, 48, 32)],
        equation="bhid,bhjd->bhij")
    add("MatMulInteger", "MatMulInteger", lambda: [unsigned(128, 768), Constant(signed(768, 768))])
    add("MatMulInteger given", "MatMulInteger", lambda: [unsigned(128, 768), signed(768, 768)])
    add("QLinearMatMul", "QLinearMatMul",
        lambda: [unsigned(128, 768), SCALE, ZERO, Constant(signed(768, 768)), SCALE, NO_SHIFT, COARSE,
                 ZERO])
    square = dict(pads=[1] * 4)
    add("ConvInteger", "ConvInteger",
        lambda: [unsigned(1, 64, 28, 28), Constant(signed(64, 64, 3, 3))], **square)
    add("QLinearConv", "QLinearConv",
        lambda: [unsigned(1, 64, 28, 28), SCALE, ZERO, Constant(signed(64, 64, 3, 3)), SCALE, NO_SHIFT,
                 COARSE, ZERO], **square)
    add("QLinearConv depthwise", "QLinearConv",
        lambda: [unsigned(1, 64, 56, 56), SCALE, ZERO, Constant(signed(64, 1, 3, 3)), SCALE, NO_SHIFT,
                 COARSE, ZERO], group=64, **square)
    for rows in (1, 32):
        for block in (32, 128):
            add(f"MatMulNBits of {rows}, blocks of {block}", "MatMulNBits",
                lambda rows=rows, block=block: [
                    floats(rows, 2048), Constant(unsigned(2048, 2048 // block, block // 2)),
                    Constant(np.abs(floats(2048 * 2048 // block)) * 0.01)],
                domain="com.microsoft", K=2048, N=2048, bits=4, block_size=block)
    add("LSTM", "LSTM", lambda: recurrent(4), hidden_size=256, outputs=3)
    add("LSTM both ways", "LSTM", lambda: recurrent(4, 2), hidden_size=256, outputs=3,
        direction="bidirectional")
    add("GRU", "GRU", lambda: recurrent(3), hidden_size=256, outputs=2)
    add("GRU reset behind", "GRU", lambda: recurrent(3), hidden_size=256, outputs=2,
        linear_before_reset=1)
    add("RNN", "RNN", lambda: recurrent(1), hidden_size=256, outputs=2)
    add("Attention", "Attention", heads, opset=23)
    add("Attention causal", "Attention", heads, opset=23, is_causal=1)
    add("DFT", "DFT", lambda: [floats(16, 4096, 1)], opset=20)
    add("DFT of 1000", "DFT", lambda: [floats(16, 1000, 1)], opset=20)
    add("STFT", "STFT",
        lambda: [floats(1, 16000, 1), Constant(160, np.int64), Constant(np.hanning(400), np.float32)],
        opset=17)
    add("Det", "Det", lambda: [floats(1000, 8, 8)])


def add_rows():
    for suffix, make in (("", floats), (" float16", halves)):
        add(f"LayerNormalization{suffix}", "LayerNormalization",
            lambda make=make: [make(512, 768), make(768), make(768)])
        add(f"Softmax{suffix}", "Softmax", lambda make=make: [make(512, 1000)])
    add("Softmax of long rows", "Softmax", lambda: [floats(4, 50257)])
    add("Softmax across", "Softmax", lambda: [floats(8, 64, 1000)], axis=1)
    add("LogSoftmax", "LogSoftmax", lambda: [floats(512, 1000)])
    add("InstanceNormalization", "InstanceNormalization",
        lambda: [floats(1, 64, 56, 56), floats(64), floats(64)])
    add("GroupNormalization", "GroupNormalization",
        lambda: [floats(1, 64, 56, 56), floats(64), floats(64)], num_groups=8)
    add("BatchNormalization", "BatchNormalization",
        lambda: [floats(1, 64, 56, 56), floats(64), floats(64), floats(64), np.abs(floats(64)) + 1])
    for operator in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"):
        add(f"{operator} of rows", operator, lambda: [floats(1000, 1000), integers(1)])
        add(f"{operator} of columns", operator, lambda: [floats(1000, 1000), integers(0)])
    add("ReduceMax around", "ReduceMax", lambda: [floats(64, 100, 64), integers(0, 2)])
    add("ArgMax", "ArgMax", lambda: [floats(100, 10000)], axis=-1)
    add("TopK", "TopK", lambda: [floats(100, 10000), integers(50)], outputs=2)
    add("TopK of one row", "TopK", lambda: [floats(1, 200000), integers(1000)], outputs=2)
    add("CumSum of rows", "CumSum", lambda: [floats(64, 10000), Constant(1, np.int64)])
    add("CumSum of columns", "CumSum", lambda: [floats(1000, 512), Constant(0, np.int64)])


def add_movement():
    add("Gather", "Gather", lambda: [floats(30000, 256), indices(30000, 4096)])
    add("Gather of columns", "Gather", lambda: [floats(1000, 1000), indices(1000, 500)], axis=1)
    add("GatherElements", "GatherElements", lambda: [floats(1000, 1000), indices(1000, 1000, 500)],
        axis=1)
    add("GatherND", "GatherND", lambda: [floats(100, 100, 64), indices(100, 5000, 2)])
    add("ScatterElements", "ScatterElements",
        lambda: [floats(1000, 1000), indices(1000, 1000, 500), floats(1000, 500)], axis=1)
    add("ScatterND added", "ScatterND",
        lambda: [floats(10000, 64), indices(10000, 5000, 1), floats(5000, 64)], reduction="add")
    add("Transpose", "Transpose", lambda: [floats(1000, 1000)], perm=[1, 0])
    add("Transpose of heads", "Transpose", lambda: [floats(8, 128, 12, 64)], perm=[0, 2, 1, 3])
    add("Transpose of channels", "Transpose", lambda: [floats(1, 64, 56, 56)], perm=[0, 2, 3, 1])
    add("Transpose of bytes", "Transpose", lambda: [unsigned(1, 256, 256, 3)], perm=[0, 3, 1, 2])
    add("Concat", "Concat", lambda: [floats(100, 1000), floats(100, 1000)], axis=1)
    add("Slice in steps", "Slice",
        lambda: [floats(1000, 1000), integers(0), integers(1000), integers(1), integers(2)])
    add("Pad", "Pad", lambda: [floats(1, 64, 56, 56), integers(0, 0, 1, 1, 0, 0, 1, 1)])
    add("Pad reflected", "Pad", lambda: [floats(1, 64, 56, 56), integers(0, 0, 1, 1, 0, 0, 1, 1)],
        mode="reflect")
    add("Expand", "Expand", lambda: [floats(1000, 1), integers(1000, 1000)])
    add("Tile", "Tile", lambda: [floats(100, 100), integers(10, 10)])
    add("DepthToSpace", "DepthToSpace", lambda: [floats(1, 256, 32, 32)], blocksize=2)
    add("ReverseSequence", "ReverseSequence", lambda: [floats(100, 64, 64), np.full(64, 50, np.int64)])
    add("Trilu", "Trilu", lambda: [floats(16, 512, 512)])
    add("OneHot", "OneHot",
        lambda: [indices(1000, 1000), Constant(1000, np.int64), Constant([0, 1], np.float32)])


def add_elementwise():
    plain = ("Exp Sqrt Tanh Sigmoid Erf Sin Atan Softplus HardSwish Mish Elu LeakyRelu Gelu Floor Round "
             "Abs Reciprocal IsNaN").split()
    for operator in plain:
        add(operator, operator, lambda: [np.abs(floats(1000, 1000))], opset=22)
    for operator in ("Add", "Div", "Max", "Less", "PRelu"):
        add(operator, operator, lambda: [floats(1000, 1000), floats(1000, 1000)])
    add("Add to rows", "Add", lambda: [floats(1000, 1000), floats(1000)])
    add("Add to columns", "Add", lambda: [floats(1000, 1000), floats(1000, 1)])
    add("Add float64", "Add", lambda: [doubles(1000, 1000), doubles(1000, 1000)])
    add("Add float16", "Add", lambda: [halves(1000, 1000), halves(1000, 1000)])
    add("Mul int64", "Mul", lambda: [indices(100, 1000, 1000), indices(100, 1000, 1000)])
    add("Pow", "Pow", lambda: [np.abs(floats(1000, 1000)), Constant(2, np.float32)])
    add("Where", "Where", lambda: [floats(1000, 1000) > 0, floats(1000, 1000), floats(1000, 1000)])
    add("Clip", "Clip",
        lambda: [floats(1000, 1000), Constant(-1, np.float32), Constant(1, np.float32)])
    add("Cast to float16", "Cast", lambda: [floats(1000, 1000)], to=10)
    add("QuantizeLinear", "QuantizeLinear", lambda: [floats(1000, 1000), SCALE, ZERO])
    add("DequantizeLinear", "DequantizeLinear", lambda: [unsigned(1000, 1000), SCALE, ZERO])
    add("DynamicQuantizeLinear", "DynamicQuantizeLinear", lambda: [floats(1000, 1000)], outputs=3)
    add("QLinearAdd", "QLinearAdd",
        lambda: [unsigned(1000, 1000), SCALE, ZERO, unsigned(1000, 1000), SCALE, ZERO, SCALE, ZERO],
        domain="com.microsoft")


add_windows()
add_products()
add_rows()
add_movement()
add_elementwise()
