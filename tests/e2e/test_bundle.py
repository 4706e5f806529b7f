"""A bundle is what its documents say: schema, digests, shards, and the commands that read it."""

import json
import re

import jsonschema
import numpy as np
import onnx
from onnx import helper

from support import SOURCE, Model, TemporaryFolderTest, autopar


class BundleTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("llama-dynamo")
        self.bundle = self.tmp / "bundle"
        self.meta = self.model.partition(self.bundle, 4)

    def test_meta_info_follows_its_schema(self):
        schema = json.loads((SOURCE / "lib/bundle/meta-info.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(self.meta, schema)
        for field in self.meta:
            broken = {key: value for key, value in self.meta.items() if key != field}
            with self.assertRaises(jsonschema.ValidationError, msg=field):
                jsonschema.validate(broken, schema)

    def test_has_the_documented_files_and_nothing_else(self):
        names = {path.name for path in self.bundle.iterdir()}
        expected = {"meta-info.json", "plan.json", "device.json", "structure.onnx", "structure.data",
                    "secret"}  # fmt: skip
        for rank in range(4):
            expected |= {f"rank{rank}.onnx", f"rank{rank}.data"}
        self.assertEqual(names, expected)

    def test_shards_are_onnx_with_external_data(self):
        for rank in range(4):
            shard = onnx.load(self.bundle / f"rank{rank}.onnx")
            domains = {opset.domain for opset in shard.opset_import}
            self.assertIn("autopar", domains)
            large = [t for t in shard.graph.initializer if len(t.raw_data) >= 1024]
            self.assertTrue(large)
            standard = [node for node in shard.graph.node if node.domain == ""]
            for node in standard:
                onnx.checker.check_node(node, self.context(shard))

    @staticmethod
    def context(model):
        context = onnx.checker.C.CheckerContext()
        context.ir_version = model.ir_version
        context.opset_imports = {o.domain: o.version for o in model.opset_import}
        return context

    def test_plan_json_pins_the_same_plan(self):
        again = self.tmp / "again"
        meta = self.model.partition(again, 4, "--strategy", self.bundle / "plan.json")
        self.assertEqual(meta["profiles"][0]["collectives"], self.meta["profiles"][0]["collectives"])
        plans = [json.loads((dir / "plan.json").read_text()) for dir in (self.bundle, again)]
        self.assertEqual(plans[0]["operators"], plans[1]["operators"])

    def test_same_command_same_bundle(self):
        again = self.tmp / "again"
        meta = self.model.partition(again, 4)
        self.assertEqual(meta["ranks"], self.meta["ranks"])

    def test_weights_are_split_fairly(self):
        one = self.tmp / "one"
        whole = self.model.partition(one, 1)["ranks"][0]["weight_bytes"]
        for rank in self.meta["ranks"]:
            self.assertLess(rank["weight_bytes"], whole / 2)

    def test_memory_limit_holds_for_shards_and_run(self):
        summary = json.loads((self.bundle / "plan.json").read_text())["summary"]
        for share in (0.9, 0.6, 0.45):
            limit = int(summary["one_device_bytes"] * share)
            out = self.tmp / f"limited{share}"
            meta = self.model.partition(out, 4, "--memory", limit)
            for rank in meta["ranks"]:
                self.assertLessEqual(rank["peak_bytes"], limit)
            run = autopar("run", "--dir", out, *self.model.input_options(), "--json").stdout
            self.assertLessEqual(max(json.loads(run)["peak_bytes"]), limit)

    def test_inspect_tells_bundle_and_model(self):
        bundle = json.loads(autopar("inspect", self.bundle, "--json").stdout)
        self.assertEqual(bundle, self.meta)
        text = autopar("inspect", self.bundle).stdout
        for rank in range(4):
            self.assertIn(f"rank {rank}", text)
        model = json.loads(autopar("inspect", self.model.file, "--json").stdout)
        self.assertEqual([port["name"] for port in model["inputs"]], list(self.model.inputs))
        self.assertIn("MatMul", model["operators"])

    def test_plan_needs_no_weights(self):
        alone = self.tmp / "alone"
        alone.mkdir()
        onnx.save(
            onnx.load(self.model.file), alone / "model.onnx", save_as_external_data=True,
            location="weights.data", size_threshold=1024,
        )
        (alone / "weights.data").unlink()
        done = autopar(
            "plan", alone / "model.onnx", *self.model.shape_options(), "--ngpus", 4, "--json"
        )
        plan = json.loads(done.stdout)
        cost = json.loads((self.bundle / "plan.json").read_text())["summary"]["cost_seconds"]
        self.assertAlmostEqual(plan["summary"]["cost_seconds"], cost, delta=cost * 1e-9)

    def test_operator_without_a_kernel_is_told_when_it_is_partitioned(self):
        value = lambda name, shape: helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, shape
        )
        scalar = onnx.TensorProto.INT64
        step = helper.make_node(
            "Momentum", ["r", "t", "x", "g", "v"], ["y", "w"], domain="ai.onnx.preview.training",
            alpha=0.9, beta=1.0, mode="standard", norm_coefficient=0.0,
        )
        inputs = [value("r", []), helper.make_tensor_value_info("t", scalar, [])]
        inputs += [value(name, [6]) for name in "xgv"]
        graph = helper.make_graph([step], "g", inputs, [value("y", [6]), value("w", [6])])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.preview.training", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9),
                  self.tmp / "momentum.onnx")
        out = self.tmp / "momentum"
        done = autopar("partition", self.tmp / "momentum.onnx", "--ngpus", 1, "--out", out)
        self.assertRegex(done.stderr, "warning: .*no CPU kernel for .*::Momentum")
        refused = autopar("run", "--dir", out, "--random-inputs", 1, expect=1)
        self.assertIn("Momentum", refused.stderr)

    def test_options_may_stand_before_the_model(self):
        options = self.model.shape_options()
        autopar("plan", *options, self.model.file, "--ngpus", 4)
        autopar("verify", *self.model.input_options(), self.model.file, self.bundle)

    def test_outputs_whose_safe_names_are_the_same_get_files_of_their_own(self):
        value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4])
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["a/b"]), helper.make_node("Neg", ["x"], ["a_b"])],
            "g", [value("x")], [value("a/b"), value("a_b")],
        )
        onnx.save(
            helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]),
            self.tmp / "two.onnx",
        )
        autopar("partition", self.tmp / "two.onnx", "--ngpus", 2, "--out", self.tmp / "two")
        x = np.array([-1, 2, -3, 4], np.float32)
        np.save(self.tmp / "x.npy", x)
        autopar(
            "run", "--dir", self.tmp / "two", "--input", f"x={self.tmp}/x.npy", "--output-dir",
            self.tmp / "y",
        )
        np.testing.assert_array_equal(np.load(self.tmp / "y" / "a_b.npy"), np.maximum(x, 0))
        np.testing.assert_array_equal(np.load(self.tmp / "y" / "a_b_1.npy"), -x)

    def test_a_dimension_of_zero(self):
        value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [0, 8])
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")]
        )
        onnx.save(
            helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]),
            self.tmp / "none.onnx",
        )
        autopar("partition", self.tmp / "none.onnx", "--ngpus", 2, "--out", self.tmp / "none")
        autopar("verify", self.tmp / "none.onnx", self.tmp / "none")
        np.save(self.tmp / "x.npy", np.zeros((0, 8), np.float32))
        autopar("run", "--dir", self.tmp / "none", "--input", f"x={self.tmp}/x.npy",
                "--output-dir", self.tmp / "y")  # fmt: skip
        self.assertEqual(np.load(self.tmp / "y" / "y.npy").shape, (0, 8))

    def test_device_file_of_the_documents(self):
        page = (SOURCE / "docs/costs.md").read_text()
        example = re.search(r'```json\n(\{\n  "name": "box".*?)```', page, re.DOTALL)
        (self.tmp / "device.json").write_text(example[1])
        options = (*self.model.shape_options(), "--ngpus", 4, "--device", self.tmp / "device.json")
        plan = json.loads(autopar("plan", self.model.file, *options, "--json").stdout)
        self.assertEqual(plan["device"], "box")

    def test_verify_refuses_another_model(self):
        autopar("verify", self.model.file, self.bundle)
        other = onnx.load(self.model.file)
        weight = max(other.graph.initializer, key=lambda t: len(t.raw_data))
        weight.raw_data = weight.raw_data[4:] + weight.raw_data[:4]
        onnx.save(other, self.tmp / "other.onnx")
        done = autopar("verify", self.tmp / "other.onnx", self.bundle, expect=1)
        self.assertIn("differs from the whole model", done.stderr)

    def test_verify_allows_half_types_their_rounding(self):
        random = np.random.default_rng(0)
        for data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16):
            with self.subTest(data_type):
                # The result is smaller than what lies between, so that parts of its sums are sent.
                weights = [helper.make_tensor(name, data_type, [512, columns],
                                              random.normal(0, 0.05, 512 * columns))
                           for name, columns in (("a", 512), ("b", 64))]
                value = lambda name, columns: helper.make_tensor_value_info(
                    name, data_type, [8, columns])
                graph = helper.make_graph(
                    [helper.make_node("MatMul", ["x", "a"], ["h"]),
                     helper.make_node("Relu", ["h"], ["r"]),
                     helper.make_node("MatMul", ["r", "b"], ["y"])],
                    "g", [value("x", 512)], [value("y", 64)], weights)
                file, bundle = self.tmp / f"{data_type}.onnx", self.tmp / f"{data_type}"
                onnx.save(helper.make_model(graph, ir_version=9,
                                            opset_imports=[helper.make_opsetid("", 18)]), file)
                autopar("partition", file, "--ngpus", 4, "--out", bundle)
                done = autopar("verify", file, bundle, "--tolerance", 1e-4, expect=1)
                self.assertIn("differs from the whole model", done.stderr)
                autopar("verify", file, bundle)

    def test_exit_codes(self):
        autopar("--help")
        autopar("partition", "--help")
        autopar(expect=2)
        autopar("partition", expect=2)
        self.assertIn("autopar --help lists them", autopar("frobnicate", expect=2).stderr)
        self.assertIn("did you mean 'partition'?", autopar("partiton", expect=2).stderr)
        autopar("run", "--dir", self.bundle, "--no-such-option", expect=2)
