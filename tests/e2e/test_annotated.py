"""`--shards annotated` writes one model with the plan as ONNX's multi-device annotations, and
`--strategy` reads them again."""

import itertools
import json
import math
import unittest

import numpy as np
import onnx
import onnx_runtime_shards
import onnxruntime
from onnx import parser
from support import MODELS, TOLERANCE, Model, TemporaryFolderTest, autopar, relative_error

# Options of a plan, and the devices' arrangement by stage.
ARRANGEMENTS = (
    ("--ngpus", 2),
    ("--ngpus", 4, "--mesh", "2x2"),
    ("--ngpus", 3),
    ("--ngpus", 2, "--stages", 2),
    ("--ngpus", 4),
    ("--ngpus", 1),
    ("--ngpus", 4, "--stages", 2),
    ("--ngpus", 4, "--mesh", "auto"),
)
ZOO = sorted(
    folder.name for folder in MODELS.iterdir() if not folder.name.startswith("detector-")
)
# A function of its own, a branch and a loop that only the run tells, and a loop of known rounds.
WITH_BODIES = """
<ir_version: 9, opset_import: ["": 18, "own": 1]>
bodies (float[8, 16] x, float[16, 16] weight, bool more, int64 rounds) => (float[8, 16] y) <
  int64 three = {3}, bool yes = {1}
> {
  hidden = own.block(x, weight)
  again = own.block(hidden, weight)
  chosen = If(more) <
    then_branch = yes_branch () => (float[8, 16] a) { a = MatMul(again, weight) },
    else_branch = no_branch () => (float[8, 16] b) { n = Neg(again) b = Exp(n) }>
  looped = Loop(rounds, yes, chosen) <body = ended_by_the_run
    (int64 i, bool on, float[8, 16] v) => (bool still, float[8, 16] w) {
      still = Identity(on) t = Tanh(v) w = MatMul(t, weight) }>
  y = Loop(three, , looped) <body = of_three
    (int64 j, bool go, float[8, 16] u) => (bool next, float[8, 16] s) {
      next = Identity(go) s = Sigmoid(u) }>
}
<domain: "own", opset_import: ["": 18]>
block (data, factor) => (result) { product = MatMul(data, factor) result = Relu(product) }
"""
MLP = (MODELS / "mlp-dynamo" / "model.onnx", "--shape", "x=8x48")


def axes_of(spec):
    """The mesh axes of each dimension, what is partial left out."""
    dims = spec.split("+")[0]
    if dims == ".":
        return []
    groups = []
    for letter in dims:
        if letter in "RS":
            groups.append([])
        else:
            groups[-1].append(int(letter))
    return groups


def coordinates(mesh):
    return list(itertools.product(*(range(size) for size in mesh)))


def shares_of_spec(spec, mesh):
    """By rank and dimension: (share, shares)."""
    found = []
    for at in coordinates(mesh):
        shares = []
        for axes in axes_of(spec):
            index, count = 0, 1
            for axis in axes:
                index, count = index * mesh[axis] + at[axis], count * mesh[axis]
            shares.append((index, count))
        found.append(shares)
    return found


def shares_of_annotation(spec, dims):
    """The same by device, as ONNX's proposal tells what devices get."""
    groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    counts = [dim.simple_sharding[0].num_shards for dim in spec.sharded_dim]
    assert math.prod(counts) == len(spec.device)
    found = {}
    for index, device in zip(itertools.product(*map(range, counts)), spec.device, strict=True):
        shares = [(0, 1)] * dims
        for dim, share, count in zip(spec.sharded_dim, index, counts, strict=True):
            shares[dim.axis] = (share, count)
        for holder in groups.get(device, [device]):
            assert holder not in found
            found[holder] = shares
    return found


def strategies(plan, stages, graph):
    """By name, without axes of size 1. What a stage receives has no annotation: it may lie in
    another way that costs the same."""
    stored = {value.name for value in (*graph.input, *graph.initializer)}
    found = {}
    for entry in plan["operators"]:
        if "inputs" not in entry and entry["name"] not in stored:
            continue
        mesh = stages[entry.get("stage", 0)]["mesh"]
        specs = [
            (shares_of_spec(spec, mesh), spec.partition("+")[2])
            for spec in entry.get("inputs", []) + entry["outputs"]
        ]
        found[entry["name"], entry.get("stage", 0), "inputs" in entry] = specs
    return found


def stages_of(plan):
    return plan.get("stages") or [{"mesh": plan["mesh"], "first_rank": 0}]


class AnnotatedTest(TemporaryFolderTest):
    def annotate(self, model, *options):
        out = self.tmp / "out"
        autopar("partition", *model, *options, "--shards", "annotated", "--out", out, "--force")
        self.assertEqual(
            {file.name for file in out.iterdir()} - {"annotated.data"},
            {"annotated.onnx", "plan.json"},
        )
        onnx.checker.check_model(str(out / "annotated.onnx"), full_check=True)
        self.check_weights(onnx.load(out / "annotated.onnx", load_external_data=False))
        return onnx.load(out / "annotated.onnx"), json.loads((out / "plan.json").read_text())

    def check_weights(self, model):
        """Those of 1 KiB or more are beside the model, so that it may be moved with its folder."""
        for weight in model.graph.initializer:
            is_external = weight.data_location == onnx.TensorProto.EXTERNAL
            bytes_of = math.prod(weight.dims) * onnx.helper.tensor_dtype_to_np_dtype(
                weight.data_type
            ).itemsize
            if is_external or bytes_of >= 1024:
                entries = {entry.key: entry.value for entry in weight.external_data}
                self.assertEqual(entries["location"], "annotated.data", weight.name)

    def plan(self, model, *options, expect=0):
        done = autopar("plan", *model, *options, "--json", expect=expect)
        return done.stderr if expect else json.loads(done.stdout)

    def check_annotations(self, model, plan):
        """Each operator and tensor is annotated as the plan's own text has it."""
        stages = stages_of(plan)
        ranks = sum(math.prod(stage["mesh"]) for stage in stages)
        self.assertGreaterEqual(model.ir_version, 11)
        self.assertEqual([c.num_devices for c in model.configuration], [ranks])
        entries = {entry["name"]: entry for entry in plan["operators"] if "inputs" in entry}
        self.assertEqual({node.name for node in model.graph.node}, set(entries))
        for node in model.graph.node:
            entry = entries[node.name]
            (own,) = node.device_configurations
            self.assertEqual(own.configuration_id, model.configuration[0].name)
            self.assertEqual(own.HasField("pipeline_stage"), len(stages) > 1)
            number = own.pipeline_stage if len(stages) > 1 else 0
            self.assertEqual(number, entry.get("stage", 0))
            stage = stages[number]
            told = {spec.tensor_name: spec for spec in own.sharding_spec}
            self.assertEqual(len(told), len(own.sharding_spec))
            own_text = {prop.key: prop.value for prop in node.metadata_props}
            for kind, names in (("input", node.input), ("output", node.output)):
                specs = dict(enumerate(entry[f"{kind}s"]))
                for i, name in enumerate(names):
                    if not name:
                        continue
                    same = {specs[j] for j, other in enumerate(names) if other == name}
                    text = own_text.get(f"autopar.{kind}.{i}")
                    if len(same) > 1:
                        self.assertNotIn(name, told)
                        self.assertEqual(text, specs[i])
                        continue
                    self.assertEqual(text is not None, "+" in specs[i] and ranks > 1)
                    expected = shares_of_spec(specs[i], stage["mesh"])
                    found = shares_of_annotation(told[name], len(axes_of(specs[i])))
                    first = stage["first_rank"]
                    self.assertEqual(found, {first + r: s for r, s in enumerate(expected)})

    def check_round_trip(self, model, options, plan, graph):
        again = self.plan(model, *options, "--strategy", self.tmp / "out" / "annotated.onnx")
        self.assertEqual(again["summary"]["cost_seconds"], plan["summary"]["cost_seconds"])
        found, expected = (strategies(each, stages_of(each), graph) for each in (again, plan))
        self.assertTrue(expected)
        self.assertEqual(found, expected)

    def test_a_plan_comes_back_from_its_annotations(self):
        for number, name in enumerate(ZOO):
            sample = Model(name)
            model = (sample.file, *sample.shape_options(), *sample.constant_options())
            options = ARRANGEMENTS[number % len(ARRANGEMENTS)]
            with self.subTest(name, options=options):
                annotated, plan = self.annotate(model, *options)
                self.check_annotations(annotated, plan)
                self.check_round_trip(model, options, plan, annotated.graph)
                if name != "bert-fused":  # ONNX Runtime refuses its masks of one row
                    level = onnx_runtime_shards.level_of(name)
                    self.check_outputs(sample.file, sample.inputs, level)

    def test_all_arrangements_of_one_model(self):
        sample = Model("llama-dynamo")
        model = (sample.file, *sample.shape_options())
        for options in ARRANGEMENTS:
            with self.subTest(options=options):
                annotated, plan = self.annotate(model, *options)
                self.check_annotations(annotated, plan)
                self.check_round_trip(model, options, plan, annotated.graph)

    def check_outputs(self, original, inputs, level=onnx_runtime_shards.OPTIMIZATION):
        """ONNX Runtime's, of the written model and of the one that was planned."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        sessions = [
            onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            for file in (original, self.tmp / "out" / "annotated.onnx")
        ]
        names = [output.name for output in sessions[0].get_outputs()]
        taken = {i.name for i in sessions[1].get_inputs()}
        expected = sessions[0].run(names, inputs)
        made = sessions[1].run(names, {k: v for k, v in inputs.items() if k in taken})
        for name, before, after in zip(names, expected, made, strict=True):
            self.assertLessEqual(relative_error(before, after), TOLERANCE, name)

    def test_microbatches(self):
        options = ("--ngpus", 4, "--stages", 2, "--microbatches", 2)
        annotated, plan = self.annotate(MLP, *options)
        self.check_annotations(annotated, plan)
        self.check_round_trip(MLP, options, plan, annotated.graph)

    def test_bodies_and_functions(self):
        file = self.tmp / "bodies.onnx"
        onnx.save(parser.parse_model(WITH_BODIES), file)
        random = np.random.default_rng(3)
        draw = lambda *shape: random.standard_normal(shape).astype(np.float32)
        for options in (("--ngpus", 2), ("--ngpus", 4, "--mesh", "2x2")):
            with self.subTest(options=options):
                annotated, plan = self.annotate((file,), *options)
                self.check_annotations(annotated, plan)
                self.check_round_trip((file,), options, plan, annotated.graph)
                for more, rounds in ((True, 2), (False, 0)):
                    self.check_outputs(file, {
                        "x": draw(8, 16), "weight": draw(16, 16) / 4,
                        "more": np.array(more), "rounds": np.array(rounds),
                    })  # fmt: skip

    def test_the_written_model_is_planned_by_its_own_annotations(self):
        sample = Model("gpt2-dynamo")
        written = self.tmp / "out" / "annotated.onnx"
        bundle = self.tmp / "bundle"
        for options in (("--ngpus", 4, "--mesh", "2x2"), ("--ngpus", 2, "--stages", 2)):
            _, plan = self.annotate((sample.file, *sample.shape_options()), *options)
            again = autopar(
                "partition", written, *options, "--strategy", written, "--json",
                "--out", bundle, "--force",
            )  # fmt: skip
            self.assertEqual(
                json.loads(again.stdout)["summary"]["cost_seconds"],
                plan["summary"]["cost_seconds"],
            )
            results = self.tmp / "results"
            autopar("run", "--dir", bundle, *sample.input_options(), "--output-dir", results)
            self.assertLessEqual(sample.error_of(results), TOLERANCE)

    def test_a_folder_of_it_is_replaced_by_force_alone_and_not_run(self):
        self.annotate(MLP, "--ngpus", 2)
        out = self.tmp / "out"
        told = autopar("run", "--dir", out, "--random-inputs", 1, expect=1).stderr
        self.assertIn("has a whole model with annotations", told)
        again = ("partition", *MLP, "--ngpus", 2, "--shards", "annotated", "--out", out)
        self.assertIn("exists", autopar(*again, expect=1).stderr)
        (out / "mine.txt").write_text("mine")
        self.assertIn("'mine.txt'", autopar(*again, "--force", expect=1).stderr)
        (out / "mine.txt").unlink()
        autopar(*again, "--force")

    def test_what_is_no_one_model_is_refused(self):
        step = MODELS / "llama-step-dynamo" / "model.onnx"
        detector = MODELS / "detector-yolo" / "model.onnx"
        for model, reason in (
            ((step, "--shape", "sequence=1,16"), "one profile"),
            ((detector,), "only a run tells"),
        ):
            for command in (("plan",), ("partition", "--out", self.tmp / "none")):
                told = autopar(
                    *command, *model, "--ngpus", 2, "--shards", "annotated", expect=1
                ).stderr
                self.assertIn(reason, told)
                self.assertEqual(len(told.strip().splitlines()), 1)
        self.assertFalse((self.tmp / "none").exists())


if __name__ == "__main__":
    unittest.main()
