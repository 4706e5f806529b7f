"""Softmax and normalisations whose own dimension is split: the ranks exchange statistics, and what
comes out is right."""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support import TOLERANCE, Model, TemporaryFolderTest, autopar


class SplitNormalizationTest(TemporaryFolderTest):
    def classifier(self, op_type, rows=1, depth=16, classes=200001):
        """Writes a model of many classes, as of a vocabulary; what it makes of x, in float64."""
        random = np.random.default_rng(1)
        weights = random.standard_normal((depth, classes)).astype(np.float32)
        graph = helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["logits"], name="product"),
                helper.make_node(op_type, ["logits"], ["y"], name="norm"),
            ],
            "classifier",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, classes])],
            [numpy_helper.from_array(weights, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, self.tmp / "model.onnx")
        x = random.standard_normal((rows, depth)).astype(np.float32)
        np.save(self.tmp / "x.npy", x)
        logits = x.astype(np.float64) @ weights
        logs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        return logs if op_type == "LogSoftmax" else np.exp(logs)

    def test_classes_are_split_where_that_is_the_cheapest(self):
        for op_type in ("Softmax", "LogSoftmax"):
            expected = self.classifier(op_type)
            for ranks in (4, 5):
                with self.subTest(op_type, ranks=ranks):
                    bundle = self.tmp / f"{op_type}{ranks}"
                    autopar("partition", self.tmp / "model.onnx", "--ngpus", ranks,
                            "--device", "cpu", "--out", bundle)
                    plan = json.loads((bundle / "plan.json").read_text())
                    strategies = {entry["name"]: entry for entry in plan["operators"]}
                    self.assertEqual(strategies["norm"]["inputs"], ["RS0"])
                    self.assertEqual(strategies["norm"]["outputs"], ["RS0"])
                    # A maximum and a sum on each rank, and nothing else.
                    meta = json.loads((bundle / "meta-info.json").read_text())
                    predicted = meta["profiles"][0]["collectives"]
                    self.assertEqual(
                        [(each["kind"], each["count"], each["bytes"]) for each in predicted],
                        [("all-reduce", 2 * ranks, 2 * ranks * 4)],
                    )
                    done = autopar("run", "--dir", bundle, "--input", f"x={self.tmp}/x.npy",
                                   "--output-dir", self.tmp / "out", "--json")
                    self.assertEqual(json.loads(done.stdout)["collectives"], predicted)
                    actual = np.load(self.tmp / "out" / "y.npy")
                    self.assertLessEqual(np.abs(expected - actual).max(),
                                         2e-6 * np.abs(expected).max())

    def test_every_normalisation_of_a_model_is_split(self):
        split = {
            "LayerNormalization": (["RR{}", "{}", "{}"], ["RR{}"]),
            "RMSNormalization": (["RR{}", "{}"], ["RR{}"]),
            "Softmax": (["RRR{}"], ["RRR{}"]),
        }
        for name in ("gpt2-dynamo", "bert-dynamo", "t5-encoder-dynamo", "gemma2-dynamo"):
            model = Model(name)
            model.partition(self.tmp / name, 1)
            operators = json.loads((self.tmp / name / "plan.json").read_text())["operators"]
            for mesh, axes in {"2": "S0", "3": "S0", "2x2": "S01"}.items():
                pins = [
                    {"name": entry["name"], "inputs": [text.format(axes) for text in inputs],
                     "outputs": [text.format(axes) for text in outputs]}
                    for entry in operators
                    for inputs, outputs in [split.get(entry.get("op_type"), ([], []))]
                    if inputs and len(inputs) == len(entry["inputs"])
                    and len(inputs[0].format("R")) == len(entry["inputs"][0])
                ]
                with self.subTest(name, mesh=mesh):
                    self.assertGreaterEqual(len(pins), 2, "the model has normalisations")
                    strategy = self.tmp / "pins.json"
                    strategy.write_text(json.dumps({"operators": pins}))
                    bundle, out = self.tmp / f"{name}{mesh}", self.tmp / f"out{name}{mesh}"
                    ranks = int(np.prod([int(size) for size in mesh.split("x")]))
                    meta = model.partition(bundle, ranks, "--mesh", mesh, "--strategy", strategy)
                    done = autopar("run", "--dir", bundle, *model.input_options(),
                                   "--output-dir", out, "--json")
                    self.assertLessEqual(model.error_of(out), TOLERANCE)
                    self.assertEqual(json.loads(done.stdout)["collectives"],
                                     meta["profiles"][0]["collectives"])
