"""A dimension of extent 0, as an empty cache has it, through every family of operators and all ways
to split them, against ONNX Runtime."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from support import MODELS, TOLERANCE, TemporaryFolderTest, autopar, mpirun, relative_error

random = np.random.default_rng(10)
# Not here: recurrent networks of no batch, on which ONNX Runtime ends the process, and a matrix times
# a vector of nothing, of which it leaves memory as it is.
SIZES = {"b": 4, "c": 6, "k": 8, "m": 5, "n": 3, "s": 7}
IR, OPSET = 10, 21


class Case:
    """One node. `shapes` has a letter a dimension for each input, digits for what stays; each letter
    is 0 in a model of its own. `constants` are further inputs, which stay as they are."""

    def __init__(self, op_type, *shapes, constants=(), outputs=1, integers=(), **attributes):
        self.op_type, self.shapes, self.constants = op_type, shapes, constants
        self.outputs, self.integers, self.attributes = outputs, integers, attributes

    def letters(self):
        return sorted({letter for shape in self.shapes for letter in shape if letter in SIZES})


def ints(*numbers):
    return np.array(numbers, np.int64)


UNARY = ("Abs", "Erf", "Gelu", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Tanh")
CASES = [
    *(Case(op, "bcs") for op in UNARY), Case("Cast", "bcs", to=TensorProto.INT32),
    *(Case(op, "bcs", "bcs") for op in ("Add", "Div", "Max", "Mul", "Pow", "Sub", "PRelu")),
    *(Case(op, "bcs", "c1") for op in ("Add", "Less", "Mul")),
    *(Case(op, "bcs", constants=(ints(axis),), keepdims=keep)
      for op in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMax", "ReduceMin",
                 "ReduceLogSum", "ReduceLogSumExp")  # ONNX leaves open what the mean of nothing is
      for axis, keep in ((0, 1), (2, 0))),
    *(Case(op, "bcs", axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (1, 2)),
    *(Case(op, "bcs", axis=1) for op in ("ArgMax", "ArgMin")),
    Case("BatchNormalization", "bcs", "c", "c", "c", "c"),
    Case("Clip", "bcs", constants=(np.float32(-1), np.float32(1))),
    Case("Concat", "bcs", "bcs", axis=1), Case("Concat", "bcs", "b2s", axis=1),
    Case("Conv", "bcmm", constants=(random.standard_normal((4, 6, 3, 3)).astype(np.float32),)),
    Case("Conv", "b49", "k14", group=4),
    Case("CumSum", "bcs", constants=(np.array(1, np.int64),)),
    Case("DepthToSpace", "b8mn", blocksize=2),
    Case("Einsum", "bmk", "bkn", equation="bmk,bkn->bmn"), Case("Einsum", "bmk", equation="bmk->mb"),
    Case("Expand", "b1s", constants=(ints(1, 3, 1),)),
    Case("Flatten", "bcs", axis=2),
    Case("Gather", "bcs", constants=(ints(1, 0),), axis=1), Case("Gather", "bcs", "mn", integers=(1,), axis=1),
    Case("GatherElements", "bcs", "b2s", integers=(1,), axis=1),
    Case("GatherND", "bcs", "m2", integers=(1,)),
    Case("Gemm", "mk", "kn"), Case("Gemm", "mk", "kn", "n"), Case("Gemm", "km", "nk", "mn", transA=1, transB=1),
    Case("GlobalAveragePool", "bcmm"), Case("MaxPool", "bcmm", kernel_shape=[2, 2]),
    Case("InstanceNormalization", "bcs", "c", "c"),
    Case("LayerNormalization", "bcs", "s", "s"), Case("LayerNormalization", "bcs", "cs", axis=1),
    Case("MatMul", "bmk", "bkn"), Case("MatMul", "bmk", "kn"), Case("MatMul", "k", "kn"),
    Case("Pad", "bcs", constants=(ints(0, 1, 0, 0, 2, 0),)),
    Case("Reshape", "bcs", constants=(ints(0, 0, -1, 1),)), Case("Reshape", "b6s", constants=(ints(0, 2, 3, 7),)),
    Case("ReverseSequence", "sbk", constants=(ints(2, 3, 1, 2),), batch_axis=1, time_axis=0),
    Case("ScatterElements", "bcs", "b2s", "b2s", integers=(1,), axis=1),
    Case("ScatterND", "bcs", "m1", "mcs", integers=(1,)),
    Case("Slice", "bcs", constants=(ints(1), ints(3), ints(1))),
    Case("Slice", "bcs", constants=(ints(-1), ints(-9), ints(2), ints(-2))),
    Case("SpaceToDepth", "bc44", blocksize=2),
    Case("Split", "bcs", outputs=2, axis=1, num_outputs=2), Case("Split", "bcs", outputs=2, axis=2, num_outputs=2),
    Case("Squeeze", "b1s", constants=(ints(1),)), Case("Unsqueeze", "bs", constants=(ints(1),)),
    Case("Tile", "bcs", constants=(ints(1, 2, 1),)), Case("Tile", "bcs", constants=(ints(1, 0, 1),)),
    Case("TopK", "bcs", constants=(ints(2),), outputs=2, axis=1),
    Case("Transpose", "bcs", perm=[2, 0, 1]), Case("Trilu", "bms", upper=0),
    Case("Where", "bcs", "bcs", "bcs", integers=(0,)),
]  # fmt: skip
MESHES = (("1", 1), ("2", 2), ("3", 3), ("4", 4), ("2x2", 4))


class Model:
    """All nodes in one model, which has some inputs of each."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.constants, self.feeds = [], [], [], [], {}

    def tensor(self, shape, is_integer, op_type):
        if op_type == "Where" and is_integer:
            return random.integers(0, 2, shape).astype(bool)
        if is_integer:
            return random.integers(0, 2, shape)
        return random.standard_normal(shape).astype(np.float32)

    def add(self, case, empty):
        """Unless ONNX Runtime refuses the case, or leaves open what it gives."""
        name = f"{case.op_type}{len(self.nodes)}_{empty}"
        given = {}
        for i, letters in enumerate(case.shapes):
            shape = [0 if x == empty else SIZES.get(x) or int(x) for x in letters]
            given[f"{name}_in{i}"] = self.tensor(shape, i in case.integers, case.op_type)
        fixed = [numpy_helper.from_array(np.asarray(array), f"{name}_c{i}")
                 for i, array in enumerate(case.constants)]  # fmt: skip
        results = [f"{name}_out{i}" for i in range(case.outputs)]
        node = helper.make_node(
            case.op_type, [*given, *(each.name for each in fixed)], results, name=name, **case.attributes
        )
        ports = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for key, array in given.items()]  # fmt: skip
        graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=key) for key in results], fixed)
        expected = reference(graph, given)
        if expected is None:
            return None
        self.nodes.append(node)
        self.inputs += ports
        self.constants += fixed
        self.feeds |= given
        self.outputs += [
            helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for key, array in expected.items()
        ]
        return expected


def model_of(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def reference(graph, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model_of(graph).SerializeToString(), options)
        return dict(zip([each.name for each in session.get_outputs()], session.run(None, feeds), strict=True))
    except Exception:  # noqa: BLE001 what it refuses is no case
        return None


class EmptyDimensionsTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        model, self.expected, served = Model(), {}, set()
        for case in CASES:
            for letter in case.letters():
                results = model.add(case, letter)
                if results is not None:
                    self.expected |= results
                    served.add(case.op_type)
        self.assertGreater(len(served), 60)
        graph = helper.make_graph(model.nodes, "g", model.inputs, model.outputs, model.constants)
        self.file = self.tmp / "model.onnx"
        onnx.save(model_of(graph), self.file)
        self.words = []
        for i, (name, array) in enumerate(model.feeds.items()):
            np.save(self.tmp / f"{i}.npy", array)
            self.words += ["--input", f"{name}={self.tmp}/{i}.npy"]

    def check(self, mesh, ranks, *more):
        bundle, out = self.tmp / "bundle", self.tmp / "out"
        autopar("partition", self.file, "--ngpus", ranks, "--mesh", mesh, "--out", bundle, "--force",
                "--time-limit", 5, *more)  # fmt: skip
        done = autopar("run", "--dir", bundle, *self.words, "--output-dir", out, "--json")
        meta = json.loads((bundle / "meta-info.json").read_text())
        self.assertEqual(json.loads(done.stdout)["collectives"], meta["profiles"][0]["collectives"])
        for name, expected in self.expected.items():
            with self.subTest(name, mesh=mesh):
                actual = np.load(out / f"{name}.npy")
                np.testing.assert_equal(np.isfinite(actual), np.isfinite(expected))
                finite = np.isfinite(expected)
                self.assertEqual(expected.shape, actual.shape)
                self.assertLessEqual(
                    relative_error(np.where(finite, expected, 0), np.where(finite, actual, 0)), TOLERANCE
                )
        return bundle

    def test_best_plans(self):
        for mesh, ranks in MESHES:
            self.check(mesh, ranks)

    def test_quick_searches(self):
        for search in ("propagation", "recursive"):
            self.check("2x2", 4, "--search", search)

    def test_verify(self):
        autopar("verify", self.file, self.check("2", 2))


class EmptyShareTest(TemporaryFolderTest):
    """Three channels over four ranks: the last has none."""

    def test_resize(self):
        constants = {"sizes": ints(1, 3, 10, 14), "rows": ints(10, 3), "scales": np.array([1, 1, 2, 2], np.float32)}
        nodes = [
            helper.make_node("Relu", ["x"], ["a"], "relu"),
            helper.make_node("Resize", ["a", "", "", "sizes"], ["y"], "by-sizes", mode="linear"),
            helper.make_node("Resize", ["a", "", "", "rows"], ["z"], "by-axes", axes=[2, 1]),
            helper.make_node("Resize", ["a", "", "scales"], ["w"], "by-scales", mode="cubic"),
        ]
        shapes = {"x": (1, 3, 5, 7), "y": (1, 3, 10, 14), "z": (1, 3, 10, 7), "w": (1, 3, 10, 14)}
        ports = {k: helper.make_tensor_value_info(k, TensorProto.FLOAT, shape) for k, shape in shapes.items()}
        fixed = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, "g", [ports.pop("x")], list(ports.values()), fixed)
        feeds = {"x": random.standard_normal(shapes["x"]).astype(np.float32)}
        onnx.save(model_of(graph), self.tmp / "model.onnx")
        np.save(self.tmp / "x.npy", feeds["x"])
        pins = [{"name": node.name, "outputs": ["RS0RR"]} for node in nodes]
        (self.tmp / "strategy.json").write_text(json.dumps({"operators": pins}))
        autopar("partition", self.tmp / "model.onnx", "--ngpus", 4, "--out", self.tmp / "bundle",
                "--strategy", self.tmp / "strategy.json")  # fmt: skip
        autopar("run", "--dir", self.tmp / "bundle", "--input", f"x={self.tmp}/x.npy", "--output-dir",
                self.tmp / "out")  # fmt: skip
        for name, expected in reference(graph, feeds).items():
            self.assertLessEqual(relative_error(expected, np.load(self.tmp / "out" / f"{name}.npy")), TOLERANCE)


class EmptyCacheTest(TemporaryFolderTest):
    """The first step of a decoder, whose cache has no rows."""

    def setUp(self):
        super().setUp()
        self.file = MODELS / "gpt2-step" / "model.onnx"
        cache = np.zeros((2, 4, 0, 16), np.float32)
        self.feeds = {
            "input_ids": random.integers(0, 509, (2, 3)),
            "attention_mask": np.ones((2, 3), np.int64),
            **{f"past_key_values.{n}.{kind}": cache for n in (0, 1) for kind in ("key", "value")},
        }
        session = onnxruntime.InferenceSession(self.file)
        names = [port.name for port in session.get_outputs()]
        self.expected = dict(zip(names, session.run(None, self.feeds), strict=True))
        self.shapes, self.inputs = [], []
        for name, array in self.feeds.items():
            np.save(self.tmp / f"{name}.npy", array)
            self.shapes += ["--shape", f"{name}={'x'.join(map(str, array.shape))}"]
            self.inputs += ["--input", f"{name}={self.tmp}/{name}.npy"]

    def check(self, ranks, *more):
        bundle, out = self.tmp / "bundle", self.tmp / "out"
        autopar("plan", self.file, *self.shapes, "--ngpus", ranks, *more)
        autopar("partition", self.file, *self.shapes, "--ngpus", ranks, "--out", bundle, "--force", *more)
        for launch in (autopar, lambda *words: mpirun(ranks, *words)):
            launch("run", "--dir", bundle, *self.inputs, "--output-dir", out)
            for name, expected in self.expected.items():
                self.assertLessEqual(relative_error(expected, np.load(out / f"{name}.npy")), TOLERANCE, name)
        autopar("verify", self.file, bundle)

    def test_ranks(self):
        for ranks in (1, 2, 3, 4):
            self.check(ranks)
        self.check(4, "--mesh", "2x2")

    def test_stages_and_microbatches(self):
        for microbatches in (1, 2):
            self.check(2, "--stages", 2, "--microbatches", microbatches)

    def test_states(self):
        """A state that begins with no rows is handed out as long as it has become."""
        self.check(2, "--loop", "present.*=past_key_values.*")


if __name__ == "__main__":
    unittest.main()
