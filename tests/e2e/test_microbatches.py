"""Microbatches of models whose batch is not in the first dimension, against ONNX Runtime: recurrent
networks with their states, which have layers first, and models that have the sequence first."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from support import TOLERANCE, TemporaryFolderTest, autopar, relative_error

FEATURES, HIDDEN, LAYERS = 6, 8, 2
GATES = {"LSTM": 4, "GRU": 3}
random = np.random.default_rng(5)


def weight(*shape):
    return (0.4 * random.standard_normal(shape)).astype(np.float32)


class Builder:
    def __init__(self):
        self.nodes, self.weights = [], []

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, op_type, inputs, outputs=1, **attributes):
        number = len(self.nodes)
        names = [f"{op_type}{number}_{o}" for o in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=f"{op_type}{number}", **attributes))
        return names[0] if outputs == 1 else names

    def model(self, inputs, outputs):
        """Shapes of inputs and outputs by name; outputs are what a dictionary says."""
        for name, (made, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [made], [name], name=name))
        ports = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in of.items()]
            for of in (inputs, {name: shape for name, (_, shape) in outputs.items()})
        ]
        graph = helper.make_graph(self.nodes, "g", *ports, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def recurrent(kind, batch_first, both_ways):
    """As PyTorch's exporters write one of several layers: states of all layers in one tensor, of
    which each layer takes its own."""
    build, gates, ways = Builder(), GATES[kind], 2 if both_ways else 1
    states = ["h0", "c0"][: 2 if kind == "LSTM" else 1]
    x, width, last = "x", FEATURES, [[] for _ in states]
    if batch_first:
        x = build.node("Transpose", [x], perm=[1, 0, 2])
    for layer in range(LAYERS):
        bounds = [build.constant(np.array([n], np.int64)) for n in (layer * ways, (layer + 1) * ways, 0)]
        own = [build.node("Slice", [state, *bounds]) for state in states]
        made = build.node(
            kind,
            [x, build.constant(weight(ways, gates * HIDDEN, width)),
             build.constant(weight(ways, gates * HIDDEN, HIDDEN)),
             build.constant(weight(ways, 2 * gates * HIDDEN)), "", *own],
            1 + len(states), hidden_size=HIDDEN, direction="bidirectional" if both_ways else "forward",
            **({"linear_before_reset": 1} if kind == "GRU" else {}),
        )  # fmt: skip
        for of_state, final in zip(last, made[1:]):
            of_state.append(final)
        width = ways * HIDDEN
        turned = build.node("Transpose", [made[0]], perm=[0, 2, 1, 3])
        x = build.node("Reshape", [turned, build.constant(np.array([0, 0, -1], np.int64))])
    if batch_first:
        x = build.node("Transpose", [x], perm=[1, 0, 2])
    order = ["batch", "sequence"] if batch_first else ["sequence", "batch"]
    state_shape = [LAYERS * ways, "batch", HIDDEN]
    finals = {f"{state[0]}n": (build.node("Concat", parts, axis=0), state_shape)
              for state, parts in zip(states, last)}  # fmt: skip
    return build.model(
        {"x": [*order, FEATURES], **dict.fromkeys(states, state_shape)},
        {"y": (x, [*order, width]), **finals},
    )


def sequence_first():
    """Attention over the sequence, each sample by itself, with the batch second throughout."""
    build = Builder()
    q, k, v = (build.node("MatMul", ["x", build.constant(weight(FEATURES, FEATURES))]) for _ in range(3))
    rows = [build.node("Transpose", [each], perm=[1, 0, 2]) for each in (q, v)]
    columns = build.node("Transpose", [k], perm=[1, 2, 0])
    scores = build.node("MatMul", [rows[0], columns])
    masked = build.node("Add", [scores, build.node("Unsqueeze", ["mask", build.constant(np.array([1]))])])
    mixed = build.node("MatMul", [build.node("Softmax", [masked], axis=-1), rows[1]])
    back = build.node("Transpose", [mixed], perm=[1, 0, 2])
    y = build.node("Add", ["x", build.node("MatMul", [back, build.constant(weight(FEATURES, FEATURES))])])
    shape = ["sequence", "batch", FEATURES]
    return build.model({"x": shape, "mask": ["batch", "sequence"]}, {"y": (y, shape)})


class MicrobatchesTest(TemporaryFolderTest):
    def check(self, model, sizes, expected_dims, *more, stages=2, counts=(1, 2, 3)):
        """A batch of 5 in 1, 2 and 3 microbatches: of 5, 3 and 2, or 2, 2 and 1 rows."""
        onnx.checker.check_model(model)
        file = self.tmp / "model.onnx"
        onnx.save(model, file)
        feeds, words = {}, []
        for port in model.graph.input:
            shape = [sizes.get(d.dim_param, d.dim_value) for d in port.type.tensor_type.shape.dim]
            feeds[port.name] = random.standard_normal(shape).astype(np.float32)
            np.save(self.tmp / f"{port.name}.npy", feeds[port.name])
            words += ["--shape", f"{port.name}={'x'.join(map(str, shape))}"]
        inputs = [word for name in feeds for word in ("--input", f"{name}={self.tmp}/{name}.npy")]
        session = onnxruntime.InferenceSession(file)
        names = [port.name for port in session.get_outputs()]
        expected = dict(zip(names, session.run(None, feeds), strict=True))
        bundle, out = self.tmp / "bundle", self.tmp / "out"
        for microbatches in counts:
            with self.subTest(microbatches=microbatches):
                autopar("partition", file, *words, "--ngpus", stages, "--stages", stages,
                        "--microbatches", microbatches, *(more if microbatches > 1 else ()),
                        "--out", bundle, "--force")  # fmt: skip
                meta = json.loads((bundle / "meta-info.json").read_text())
                if microbatches > 1:
                    [profile] = meta["profiles"]
                    dims = {port["name"]: port["batch"]["dim"]
                            for port in profile["inputs"] + profile["outputs"] if port.get("batch")}  # fmt: skip
                    self.assertEqual(dims, expected_dims)
                autopar("run", "--dir", bundle, *inputs, "--output-dir", out)
                for name, array in expected.items():
                    self.assertLessEqual(relative_error(array, np.load(out / f"{name}.npy")), TOLERANCE, name)

    def test_states_have_the_batch_second(self):
        for kind in ("LSTM", "GRU"):
            for batch_first in (False, True):
                for both_ways in (False, True):
                    states = {"h0": 1, "hn": 1} | ({"c0": 1, "cn": 1} if kind == "LSTM" else {})
                    dims = {"x": 0 if batch_first else 1, "y": 0 if batch_first else 1, **states}
                    with self.subTest(kind, batch_first=batch_first, both_ways=both_ways):
                        self.check(recurrent(kind, batch_first, both_ways), {"batch": 5, "sequence": 7}, dims)

    def test_as_many_layers_steps_and_rows(self):
        """Where positions say nothing, the rules do."""
        model = recurrent("LSTM", False, True)
        dims = {"x": 1, "y": 1, "h0": 1, "hn": 1, "c0": 1, "cn": 1}
        self.check(model, {"batch": 4, "sequence": 4}, dims, counts=(1, 2, 4))

    def test_batch_that_is_named(self):
        model = recurrent("GRU", False, False)
        dims = {"x": 1, "y": 1, "h0": 1, "hn": 1}
        self.check(model, {"batch": 5, "sequence": 3}, dims, "--batch", "h0=1")

    def test_sequence_first_throughout(self):
        self.check(sequence_first(), {"batch": 5, "sequence": 7}, {"x": 1, "mask": 0, "y": 1})


if __name__ == "__main__":
    unittest.main()
