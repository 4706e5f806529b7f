"""`--strategy MODEL.onnx` with ONNX's multi-device annotations that the test has written itself:
they are pins, what is planned with them computes what the model did, and one that no plan can have
is told in one line."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from support import MODELS, TOLERANCE, TemporaryFolderTest, autopar, relative_error

ROWS, WIDTH, HIDDEN = 8, 16, 32
NODES = ("up", "relu", "down", "tanh", "last")
TENSORS = ("hidden", "active", "lowered", "bent", "y")


def perceptron():
    """MatMul, Relu, MatMul, Tanh, MatMul."""
    random = np.random.default_rng(5)
    shapes = {"w_up": (WIDTH, HIDDEN), "w_down": (HIDDEN, WIDTH), "w_last": (WIDTH, WIDTH)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 4, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w_up"], ["hidden"], "up"),
        helper.make_node("Relu", ["hidden"], ["active"], "relu"),
        helper.make_node("MatMul", ["active", "w_down"], ["lowered"], "down"),
        helper.make_node("Tanh", ["lowered"], ["bent"], "tanh"),
        helper.make_node("MatMul", ["bent", "w_last"], ["y"], "last"),
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (ROWS, WIDTH)) for name in "xy"
    ]
    graph = helper.make_graph(nodes, "perceptron", ports[:1], ports[1:], weights)
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 18)])


def sharding(tensor, devices, *dims, groups=()):
    """`dims`: (axis, shards)."""
    spec = onnx.ShardingSpecProto(tensor_name=tensor, device=devices)
    for key, members in dict(groups).items():
        spec.index_to_device_group_map.add(key=key, value=members)
    for axis, shards in dims:
        spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=shards)
    return spec


def everywhere(tensor, devices):
    return sharding(tensor, [-1], groups={-1: devices})


def node_of(model, name):
    return next(node for node in model.graph.node if node.name == name)


def annotate(model, node, *specs, stage=None, configuration="mine"):
    own = node_of(model, node).device_configurations.add(
        configuration_id=configuration, sharding_spec=specs
    )
    if stage is not None:
        own.pipeline_stage = stage


class ByHandTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.file = self.tmp / "plain.onnx"
        onnx.save(perceptron(), self.file)

    def annotated(self, devices=2):
        model = perceptron()
        model.configuration.add(name="mine", num_devices=devices)
        return model

    def save(self, model):
        file = self.tmp / "mine.onnx"
        onnx.save(model, file)
        return file

    def plan(self, model, *options):
        """The plan's operators by name, of a model that the checker accepts."""
        onnx.checker.check_model(model, full_check=True)
        done = autopar(
            "plan", self.file, *options, "--strategy", self.save(model), "--json"
        )
        plan = json.loads(done.stdout)
        summary = plan["summary"]  # a search of stages may miss what is 0.2 % better
        self.assertLessEqual(summary["cost_seconds"], 1.002 * summary["lower_bound_seconds"])
        return {entry["name"]: entry for entry in plan["operators"]}

    def refusal(self, model, *options, plain=None):
        """The one line that is told, by both commands; nothing is written."""
        given = (plain or self.file, *options, "--strategy", self.save(model))
        told = {
            autopar(*command, *given, expect=1).stderr
            for command in (("plan",), ("partition", "--out", self.tmp / "none"))
        }
        self.assertEqual(len(told), 1, told)
        (line,) = told
        self.assertEqual(len(line.strip().splitlines()), 1, line)
        self.assertFalse((self.tmp / "none").exists())
        return line

    def check_run(self, model, *options):
        """A bundle of the annotated model itself, whose outputs are ONNX Runtime's."""
        file, bundle, out = self.save(model), self.tmp / "bundle", self.tmp / "results"
        autopar("partition", file, *options, "--strategy", file, "--out", bundle, "--force")
        x = np.random.default_rng(9).standard_normal((ROWS, WIDTH)).astype(np.float32)
        np.save(self.tmp / "x.npy", x)
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        autopar("run", "--dir", bundle, "--input", f"x={self.tmp / 'x.npy'}", "--output-dir", out)
        (expected,) = session.run(["y"], {"x": x})
        self.assertLessEqual(relative_error(expected, np.load(out / "y.npy")), TOLERANCE)
        return json.loads((bundle / "meta-info.json").read_text())

    def test_columns_then_rows(self):
        """Megatron's split of two MatMuls, told of their weights alone."""
        for devices in (2, 4):
            everyone = list(range(devices))
            model = self.annotated(devices)
            annotate(model, "up", sharding("w_up", everyone, (1, devices)))
            annotate(model, "down", sharding("w_down", everyone, (0, devices)))
            plan = self.plan(model, "--ngpus", devices)
            self.assertEqual(plan["up"]["inputs"][1], "RS0")
            self.assertEqual(plan["up"]["outputs"], ["RS0"])
            self.assertEqual(plan["down"]["inputs"], ["RS0", "S0R"])
            meta = self.check_run(model, "--ngpus", devices)
            kinds = {entry["kind"] for entry in meta["profiles"][0]["collectives"]}
            self.assertTrue(kinds & {"all-reduce", "reduce-scatter"}, kinds)

    def test_one_tensor_of_one_node(self):
        for spec, text in (
            (sharding("w_up", [0, 1], (0, 2)), "S0R"),
            (sharding("w_up", [0, 1], (-1, 2)), "RS0"),
            (everywhere("w_up", [1, 0]), "RR"),
            (sharding("w_up", [-1], (0, 1), groups={-1: [0, 1]}), "RR"),
        ):
            model = self.annotated()
            annotate(model, "up", spec)
            self.assertEqual(self.plan(model, "--ngpus", 2)["up"]["inputs"][1], text)
            self.check_run(model, "--ngpus", 2)

    def test_uneven_shards(self):
        model = self.annotated(3)
        annotate(model, "tanh", sharding("bent", [0, 1, 2], (0, 3)))
        self.assertEqual(self.plan(model, "--ngpus", 3)["tanh"]["outputs"], ["S0R"])
        self.check_run(model, "--ngpus", 3)

    def test_blocks_of_a_fused_dimension(self):
        model = self.annotated()
        spec = sharding("hidden", [0, 1], (1, 2))
        spec.sharded_dim[0].simple_sharding[0].dim_value = 4
        spec.sharded_dim[0].simple_sharding.add(num_shards=1, dim_value=8)
        annotate(model, "relu", spec)
        self.assertEqual(self.plan(model, "--ngpus", 2)["relu"]["inputs"], ["RS0"])

    def test_the_order_of_devices_tells_the_axis(self):
        """Of a mesh 2x2, which `auto` finds."""
        both = sharding("hidden", [0, 2, 1, 3], (0, 2), (1, 2))
        columns = sharding("active", [-5, -6], (1, 2), groups={-5: [0, 2], -6: [1, 3]})
        for spec, places, text in (
            (columns, "outputs", ["RS1"]),
            (both, "inputs", ["S1S0"]),
        ):
            model = self.annotated(4)
            annotate(model, "relu", spec)
            for mesh in ("2x2", "auto"):
                plan = self.plan(model, "--ngpus", 4, "--mesh", mesh)
                self.assertEqual(plan["relu"][places], text)
            self.check_run(model, "--ngpus", 4, "--mesh", "2x2")
            told = self.refusal(model, "--ngpus", 4)
            self.assertIn("node 'relu' (Relu): tensor '", told)
            self.assertIn("no axes of a mesh 4 give the devices these shards", told)

    def test_of_several_configurations_the_one_of_as_many_devices_counts(self):
        model = self.annotated()
        model.configuration.add(name="four", num_devices=4)
        annotate(model, "up", sharding("w_up", [0, 1], (0, 2)))
        annotate(model, "up", sharding("w_up", [0, 1, 2, 3], (1, 4)), configuration="four")
        self.assertEqual(self.plan(model, "--ngpus", 2)["up"]["inputs"][1], "S0R")
        self.assertEqual(self.plan(model, "--ngpus", 4)["up"]["inputs"][1], "RS0")
        done = autopar("plan", self.file, "--ngpus", "2,3,4", "--strategy", self.save(model), "--json")
        reasons = {row["ngpus"]: row.get("refusal") for row in json.loads(done.stdout)["rows"]}
        self.assertIsNone(reasons[2])
        self.assertIn("annotated for 2, 4 devices but --ngpus is 3", reasons[3])
        self.assertIsNone(reasons[4])

    def staged(self, stages, devices=None, ranks=2):
        """`stages` and `devices` by node; a stage's number counts from 3 on."""
        model = self.annotated(ranks)
        for name, tensor, stage in zip(NODES, TENSORS, stages, strict=True):
            specs = [] if devices is None else [everywhere(tensor, devices[stage])]
            annotate(model, name, *specs, stage=stage + 3)
        return model

    def test_a_pipeline_of_two_stages(self):
        for last in range(4):
            stages = [int(node > last) for node in range(5)]
            for devices in (None, [[0], [1]]):
                model = self.staged(stages, devices)
                for count in ("2", "auto"):
                    plan = self.plan(model, "--ngpus", 2, "--stages", count)
                    self.assertEqual([plan[name]["stage"] for name in NODES], stages)
                meta = self.check_run(model, "--ngpus", 2, "--stages", 2)
                self.assertEqual([stage["ranks"] for stage in meta["stages"]], [[0], [1]])

    def test_stages_of_several_devices(self):
        model = self.staged([0, 0, 0, 1, 1], [[0, 1], [2, 3]], ranks=4)
        plan = self.plan(model, "--ngpus", 4, "--stages", 2)
        self.assertEqual([plan[name]["stage"] for name in NODES], [0, 0, 0, 1, 1])
        self.assertEqual([plan[name]["outputs"] for name in NODES], [["RR"]] * 5)
        self.check_run(model, "--ngpus", 4, "--stages", 2, "--microbatches", 2)

    def test_some_nodes_tell_a_stage_and_others_are_not_annotated(self):
        model = self.annotated()
        annotate(model, "relu", stage=0)
        annotate(model, "last", stage=1)
        plan = self.plan(model, "--ngpus", 2, "--stages", 2)
        self.assertEqual(plan["relu"]["stage"], 0)
        self.assertEqual(plan["last"]["stage"], 1)
        self.check_run(model, "--ngpus", 2, "--stages", 2)

    def test_a_node_that_is_folded_is_left_out(self):
        model = self.annotated()
        identity = helper.make_node("Identity", ["bent"], ["same"], "same_again")
        node_of(model, "last").input[0] = "same"
        model.graph.node.insert(4, identity)
        annotate(model, "same_again", sharding("bent", [0, 1], (0, 2)))
        annotate(model, "up", sharding("w_up", [0, 1], (1, 2)))
        onnx.save(model, self.file)
        file = self.save(model)
        done = autopar("plan", self.file, "--ngpus", 2, "--strategy", file, "--json")
        self.assertIn("not pinned", done.stderr)
        self.assertIn("same_again", done.stderr)
        plan = {entry["name"]: entry for entry in json.loads(done.stdout)["operators"]}
        self.assertEqual(plan["up"]["inputs"][1], "RS0")

    def test_stages_that_cannot_be(self):
        back = self.annotated()
        annotate(back, "up", stage=1)
        annotate(back, "relu", stage=0)
        some = self.annotated()
        annotate(some, "up", stage=0)
        annotate(some, "relu")
        for model, reason in (
            (back, "has operator 'relu' in stage 0, but 'up', which stands before it, in 1"),
            (some, "node 'relu' (Relu) has no pipeline_stage"),
            (self.staged([0, 0, 1, 1, 1], [[1], [0]]), "the first device of stage 0 is 1"),
            (self.staged([0, 0, 1, 1, 1], [[0], [0]]), "the first device of stage 1 is 0"),
        ):
            self.assertIn(reason, self.refusal(model, "--ngpus", 2, "--stages", 2))
        two = self.staged([0, 0, 1, 1, 1])
        self.assertIn("in 2 stages but --stages is 1", self.refusal(two, "--ngpus", 2))
        one = self.annotated()
        annotate(one, "up", everywhere("w_up", [0, 1]))
        told = self.refusal(one, "--ngpus", 2, "--stages", 2)
        self.assertIn("in 1 stage but --stages is 2", told)

    def test_what_is_wrong_with_a_tensor(self):
        of_up = "node 'up' (MatMul): tensor 'w_up': "

        def with_blocks(*blocks):
            spec = sharding("w_up", [0, 1], (0, blocks[0][0]))
            del spec.sharded_dim[0].simple_sharding[:]
            for shards, extent in blocks:
                spec.sharded_dim[0].simple_sharding.add(num_shards=shards, dim_value=extent)
            return spec

        for spec, reason in (
            (sharding("unknown", [0, 1], (0, 2)), "tensor 'unknown' is none of its inputs"),
            (sharding("w_down", [0, 1], (0, 2)), "tensor 'w_down' is none of its inputs"),
            (sharding("w_up", [0, 1], (2, 2)), of_up + "there is no dimension 2"),
            (sharding("w_up", [0, 1], (-3, 2)), of_up + "there is no dimension -3"),
            (sharding("w_up", [0, 1], (0, 3)), of_up + "it has 3 shards but lists 2"),
            (sharding("w_up", [0, 0], (0, 2)), of_up + "device 0 has more than one shard"),
            (sharding("w_up", [0, 2], (0, 2)), of_up + "device 2 is none of the configuration's 2"),
            (sharding("w_up", [0, -1], (0, 2)), of_up + "device -1 is none"),
            (sharding("w_up", [-1], groups={-1: []}), of_up + "device group -1 is empty"),
            (sharding("w_up", [1, 0], (0, 2)), of_up + "no axes of a mesh 2"),
            (sharding("w_up", [0]), of_up + "1 of the devices 0 to 1 have a shard"),
            (sharding("w_up", [0, 1], (0, 2), (0, 1)), of_up + "dimension 0 is told twice"),
            (sharding("w_up", [0, 1], (0, 2), (-2, 1)), of_up + "dimension -2 is told twice"),
            (sharding("w_up", [0, 1], (0, 0)), of_up + "dimension 0 has 0 shards"),
            (sharding("w_up", [0, 1], (0, 1 << 62)), of_up + f"dimension 0 has {1 << 62} shards"),
            (with_blocks((2, 17)), of_up + "dimension 0 is 16, but the annotation says 17"),
            (with_blocks((1, 2), (2, 8)), of_up + "dimension 0 is cut within blocks"),
            (with_blocks((2, 2), (1, 9)), of_up + "dimension 0 is 16, but the annotation says 18"),
            (with_blocks((2, 1 << 40), (1, 1 << 40)), of_up + "dimension 0 has blocks whose sizes"),
        ):
            with self.subTest(reason=reason):
                model = self.annotated()
                annotate(model, "up", spec)
                self.assertIn(reason, self.refusal(model, "--ngpus", 2))

    def test_what_is_wrong_with_the_model(self):
        def half(model):
            annotate(model, "up", sharding("w_up", [0, 1], (0, 2)))

        def old(model):
            model.ir_version = 10

        def unnamed(model):
            node_of(model, "up").name = ""

        def second_of_the_name(model):
            node_of(model, "relu").name = "up"

        def renamed(model):
            node_of(model, "up").name = "other"

        def twice(model):
            half(model)

        def tensor_twice(model):
            own = node_of(model, "up").device_configurations[0]
            own.sharding_spec.append(own.sharding_spec[0])

        def of_none(model):
            node_of(model, "up").device_configurations[0].configuration_id = "none"

        def another_of_two(model):
            model.configuration.add(name="again", num_devices=2)

        def another_of_the_name(model):
            model.configuration.add(name="mine", num_devices=4)

        def contradicting_metadata(model):
            node_of(model, "up").metadata_props.add(key="autopar.input.1", value="RS0")

        def contradicting_tensors(model):
            annotate(model, "relu", sharding("hidden", [0, 1], (0, 2)),
                     sharding("active", [0, 1], (1, 2)))  # fmt: skip

        def in_function(model):
            node = helper.make_node("Relu", ["a"], ["b"], "inner")
            node.device_configurations.add(configuration_id="mine")
            model.functions.append(
                helper.make_function("own", "relu", ["a"], ["b"], [node], [helper.make_opsetid("", 18)])
            )

        def in_body(model):
            node = helper.make_node("Relu", ["hidden"], ["b"], "inner")
            node.device_configurations.add(configuration_id="mine")
            out = helper.make_tensor_value_info("b", TensorProto.FLOAT, (ROWS, HIDDEN))
            body = helper.make_graph([node], "body", [], [out])
            condition = numpy_helper.from_array(np.array(True), "yes")
            model.graph.initializer.append(condition)
            model.graph.node.append(
                helper.make_node("If", ["yes"], ["c"], "if", then_branch=body, else_branch=body)
            )

        def without_any(model):
            del node_of(model, "up").device_configurations[:]

        for change, reason in (
            (old, "IR version 10, which knows none: set its ir_version to 11"),
            (unnamed, "the node of 'hidden' (MatMul): it has annotations but no name"),
            (second_of_the_name, "node 'up' (MatMul): another node has its name"),
            (renamed, "'other'"),
            (twice, "node 'up' (MatMul): it has configuration 'mine' twice"),
            (tensor_twice, "node 'up' (MatMul): tensor 'w_up' is annotated twice"),
            (of_none, "configuration_id 'none' is no configuration of the model"),
            (another_of_two, "has several configurations for 2 devices: mine, again"),
            (another_of_the_name, "has configuration 'mine' twice"),
            (contradicting_metadata, "tensor 'w_up': the metadata have it lie as RS0, which is not"),
            (contradicting_tensors, "'relu'"),
            (in_function, "function 'relu': node 'inner' (Relu) is annotated, which only nodes of"),
            (in_body, "body 'else_branch' of node 'if' (If): node 'inner' (Relu) is annotated"),
            (without_any, "no node is annotated for configuration 'mine'"),
        ):
            with self.subTest(reason=reason):
                model = self.annotated()
                half(model)
                change(model)
                self.assertIn(reason, self.refusal(model, "--ngpus", 2))

    def test_what_does_not_fit_the_options(self):
        model = self.annotated()
        annotate(model, "up", sharding("w_up", [0, 1], (0, 2)))
        told = self.refusal(model, "--ngpus", 3)
        self.assertIn("annotated for 2 devices but --ngpus is 3", told)
        told = self.refusal(perceptron(), "--ngpus", 2)
        self.assertIn("has no multi-device configuration", told)
        other = MODELS / "mlp-dynamo" / "model.onnx"
        told = self.refusal(model, "--ngpus", 2, "--shape", "x=8x48", plain=other)
        self.assertIn("'up'", told)
        (self.tmp / "text.onnx").write_text("no model")
        for file in ("text.onnx", "absent.onnx"):
            told = autopar(
                "plan", self.file, "--ngpus", 2, "--strategy", self.tmp / file, expect=1
            ).stderr
            self.assertIn(file, told)
            self.assertEqual(len(told.strip().splitlines()), 1, told)


if __name__ == "__main__":
    unittest.main()
