"""Loops that only the run ends, against ONNX Runtime: whole and split over several ranks."""

import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from support import SOURCE, TemporaryFolderTest, autopar, relative_error

EXPORTS = SOURCE / "models" / "loops"
MESHES = ("1", "2", "3", "2x2")
COLUMNS = 20  # of a square weight of more than a KiB, which is stored apart and split
SHAPES = ((4, COLUMNS), (1, COLUMNS), (COLUMNS,))


class RandomLoop:
    """A graph with a Loop that carries a few tensors, drawn from a seed. Its rounds end by a count
    and a condition that its inputs decide, and its body may hold an If and a Loop of its own. What
    it computes is no chaos, in which other roundings would grow from round to round."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.names = 0
        self.weights = [self.constant((COLUMNS, COLUMNS), 0.1), self.constant((COLUMNS,), 1.0)]
        self.model = self.draw()

    def name(self, what="v"):
        self.names += 1
        return f"{what}{self.names}"

    def constant(self, shape, scale):
        values = scale * self.random.standard_normal(shape).astype(np.float32)
        return numpy_helper.from_array(values.astype(np.float32), self.name("w"))

    def chance(self, part):
        return self.random.random() < part

    def draw(self):
        carried = int(self.random.integers(1, 4))
        self.shapes = [SHAPES[i] for i in self.random.integers(0, len(SHAPES), carried)]
        starts = [f"x{i}" for i in range(carried)]
        trip_count = ["", "n"][int(self.chance(0.6))]
        most = int(self.random.integers(3, 9))
        node = self.loop(trip_count, "go", starts, self.shapes, most, depth=0)
        outputs = [f"y{i}" for i in range(carried)]
        after = [helper.make_node("Neg", [made], [y]) for made, y in zip(node.output, outputs)]
        float_info = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(starts, self.shapes)
        ]
        inputs = float_info + [helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
        inputs.append(helper.make_tensor_value_info("limit", TensorProto.FLOAT, []))
        inputs.append(helper.make_tensor_value_info("n", TensorProto.INT64, []))
        made = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(outputs, self.shapes)
        ]
        graph = helper.make_graph([node, *after], "g", inputs, made, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def loop(self, trip_count, condition, starts, shapes, most, depth):
        nodes, constants = [], []
        i, on = self.name("i"), self.name("on")
        given = [self.name("c") for _ in starts]
        made = [self.step(nodes, constants, g, s, given, shapes, depth) for g, s in zip(given, shapes)]
        top, total, cap, more = (self.name() for _ in range(4))
        bound = numpy_helper.from_array(np.array(most, np.int64), self.name("most"))
        constants.append(bound)
        nodes.append(helper.make_node("Abs", [made[0]], [top]))
        nodes.append(helper.make_node("ReduceMax", [top], [total], keepdims=0))
        below = self.name()
        nodes.append(helper.make_node("Less", [total, "limit"], [below]))
        nodes.append(helper.make_node("Less", [i, bound.name], [cap]))
        nodes.append(helper.make_node("And", [below, cap], [more]))
        info = helper.make_tensor_value_info
        body = helper.make_graph(
            nodes,
            self.name("body"),
            [info(i, TensorProto.INT64, []), info(on, TensorProto.BOOL, [])]
            + [info(g, TensorProto.FLOAT, s) for g, s in zip(given, shapes)],
            [info(more, TensorProto.BOOL, [])]
            + [info(m, TensorProto.FLOAT, s) for m, s in zip(made, shapes)],
            constants,
        )
        outputs = [self.name("r") for _ in starts]
        return helper.make_node("Loop", [trip_count, condition, *starts], outputs, body=body)

    def step(self, nodes, constants, value, shape, given, shapes, depth):
        """What becomes of a carried value in a round: a value of the same shape."""
        same = [g for g, s in zip(given, shapes) if s == shape]
        if self.chance(0.15):
            return self.apply(nodes, "Identity", self.random.choice(same))  # swapped, or kept
        if self.chance(0.6) and len(shape) == 2:
            value = self.apply(nodes, "MatMul", value, self.weights[0].name)
        if self.chance(0.5):
            constants.append(self.constant((COLUMNS,), 0.5))
            value = self.apply(nodes, "Add", value, constants[-1].name)
        if self.chance(0.5):
            value = self.apply(nodes, "Add", value, self.weights[1].name)
        if self.chance(0.4):
            factor = self.apply(nodes, "Tanh", self.random.choice(same))
            value = self.apply(nodes, "Mul", value, factor)
        if self.chance(0.3):
            value = self.branch(nodes, value, shape)
        if depth == 0 and self.chance(0.3):
            holds = self.name()
            constants.append(numpy_helper.from_array(np.array(True), holds))
            nodes.append(self.loop("", holds, [value], [shape], 3, depth=1))
            value = nodes[-1].output[0]
        return self.apply(nodes, "Tanh" if self.chance(0.7) else "Sin", value)

    def apply(self, nodes, operator, *inputs):
        nodes.append(helper.make_node(operator, [str(i) for i in inputs], [self.name()]))
        return nodes[-1].output[0]

    def branch(self, nodes, value, shape):
        top, holds, made = self.name(), self.name(), self.name()
        nodes.append(helper.make_node("ReduceSum", [value], [top], keepdims=0))
        nodes.append(helper.make_node("Less", [top, "limit"], [holds]))
        branches = {}
        for key, operator in (("then_branch", "Neg"), ("else_branch", "Exp")):
            result = self.name()
            branches[key] = helper.make_graph(
                [helper.make_node(operator, [value], [result])],
                self.name("branch"),
                [],
                [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
            )
        nodes.append(helper.make_node("If", [holds], [made], **branches))
        return made

    def inputs(self, rounds, go, limit):
        values = {
            f"x{i}": self.random.standard_normal(shape).astype(np.float32)
            for i, shape in enumerate(self.shapes)
        }
        return values | {
            "go": np.array(go),
            "limit": np.array(limit, np.float32),
            "n": np.array(rounds, np.int64),
        }


class LoopsTest(TemporaryFolderTest):
    def check(self, model, cases, *options, meshes=MESHES):
        """`cases`: inputs by name, for which the model's outputs are compared."""
        session = onnxruntime.InferenceSession(model.SerializeToString())
        taken = {each.name for each in session.get_inputs()}
        folder = self.tmp / f"case{len(list(self.tmp.iterdir()))}"
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        bundles = {}
        for mesh in meshes:
            bundles[mesh] = folder / mesh
            ranks = int(np.prod([int(axis) for axis in mesh.split("x")]))
            done = autopar("partition", folder / "model.onnx", *options, "--ngpus", ranks, "--mesh",
                           mesh, "--device", "cpu", "--out", bundles[mesh])  # fmt: skip
        for case, inputs in enumerate(cases):
            inputs = {name: array for name, array in inputs.items() if name in taken}
            expected = session.run(None, inputs)
            files = []
            for name, array in inputs.items():
                np.save(folder / f"{name}.npy", array)
                files += ["--input", f"{name}={folder}/{name}.npy"]
            for mesh, bundle in bundles.items():
                out = folder / f"out-{mesh}-{case}"
                ran = autopar("run", "--dir", bundle, "--device", "cpu", *files, "--output-dir",
                              out, "--json")  # fmt: skip
                self.check_memory(bundle, json.loads(ran.stdout))
                for output, wanted in zip(session.get_outputs(), expected, strict=True):
                    actual = np.load(out / f"{output.name}.npy")
                    with self.subTest(mesh=mesh, case=case, output=output.name):
                        self.assertLessEqual(relative_error(wanted, actual), 1e-4)
        return done

    def check_memory(self, bundle, ran):
        predicted = json.loads((bundle / "meta-info.json").read_text())["ranks"]
        for rank, measured in zip(predicted, ran["peak_bytes"], strict=True):
            self.assertLessEqual(measured, rank["peak_bytes"])

    def test_random_loops(self):
        for seed in range(14):
            with self.subTest(seed=seed):
                loop = RandomLoop(seed)
                cases = [
                    loop.inputs(5, True, 1e9),
                    loop.inputs(2, True, 0.9),
                    loop.inputs(np.iinfo(np.int64).max, True, 0.95),
                    loop.inputs(0, True, 1e9),
                    loop.inputs(-3, True, 1e9),
                    loop.inputs(4, False, 1e9),
                ]
                meshes = (MESHES[seed % 4],) if seed > 3 else MESHES
                self.check(loop.model, cases, meshes=meshes)

    def test_one_warning_names_the_loop(self):
        loop = RandomLoop(0)
        loop.model.graph.node[0].name = "search"
        done = self.check(loop.model, [], meshes=("2",))
        warnings = [line for line in done.stderr.splitlines() if "warn" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn("'search'", warnings[0])

    def test_weights_of_a_body_are_split_like_others(self):
        loop = RandomLoop(2)
        self.check(loop.model, [], meshes=("1", "2"))
        whole, half = (
            json.loads((next(self.tmp.glob("case*")) / mesh / "meta-info.json").read_text())
            for mesh in ("1", "2")
        )
        most = max(rank["weight_bytes"] for rank in half["ranks"])
        self.assertLess(most, 0.8 * whole["ranks"][0]["weight_bytes"])

    def test_loops_of_many_rounds(self):
        model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
            g (float[3] x) => (float[3] y, float[15000, 3] all) <int64 n = {15000}> {
                y, all = Loop(n, , x) <body = b (int64 i, bool on, float[3] v)
                    => (bool more, float[3] w, float[3] k) <float part = {0.999}> {
                    more = Identity(on) f = Cast<to = 1>(i) s = Sin(f) m = Mul(v, part)
                    w = Add(m, s) k = Neg(w) }> }""")
        self.check(model, [{"x": np.array([1, -2, 3], np.float32)}], meshes=("1", "2"))

    def test_scans_of_many_steps_in_either_direction(self):
        model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
            g (float[2] s, float[2, 12000] x, float[12000, 2] z)
                => (float[2] t, float[2, 12000] y, float[12000, 2] u) {
                t, y, u = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0],
                    scan_input_directions = [1, 0], scan_output_axes = [-1, 0],
                    scan_output_directions = [0, 1], body = b (float[2] a, float[2] e, float[2] f)
                        => (float[2] sum, float[2] out, float[2] g) {
                        d = Add(a, e) sum = Sin(d) out = Neg(sum) g = Mul(f, sum) }>(s, x, z) }""")
        random = np.random.default_rng(4)
        inputs = {
            "s": random.standard_normal(2).astype(np.float32),
            "x": random.standard_normal((2, 12000)).astype(np.float32),
            "z": random.standard_normal((12000, 2)).astype(np.float32),
        }
        self.check(model, [inputs], meshes=("1", "2"))

    def test_exports_of_scripted_modules(self):
        for file in sorted(EXPORTS.glob("*.onnx")):
            with self.subTest(model=file.stem):
                cases = np.load(file.with_suffix(".npz"))
                inputs = {}
                for key in cases.files:
                    case, name = key.split("/")
                    inputs.setdefault(case, {})[name] = cases[key]
                self.check(onnx.load(file), list(inputs.values()))

    def test_refused_in_one_line(self):
        refused = {
            "grows": """(float[1] x, bool go) => (float[A] y) {
                [grows] y = Loop(, go, x) <body = b (int64 i, bool on, float[N] v)
                    => (bool more, float[M] w) <float most = {9}> {
                    w = Concat<axis = 0>(v, v) s = ReduceSum<keepdims = 0>(w)
                    more = Less(s, most) }> }""",
            "collects": """(float[2] x, int64 n) => (float[2] y, float[A, 2] all) {
                [collects] y, all = Loop(n, , x) <body = b (int64 i, bool on, float[2] v)
                    => (bool more, float[2] w, float[2] k) {
                    more = Identity(on) w = Relu(v) k = Neg(v) }> }""",
            "at": """(float[2] x, int64 p) => (float[2] y) {
                s = SequenceConstruct(x, x) [at] y = SequenceAt(s, p) }""",
        }
        for name, text in refused.items():
            with self.subTest(name):
                model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')
                onnx.save(model, self.tmp / "model.onnx")
                done = autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, expect=1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"'{name}'", done.stderr)

    def test_profile_threads_and_discovery_take_a_loop(self):
        loop = RandomLoop(1)
        onnx.save(loop.model, self.tmp / "model.onnx")
        bundle, trace = self.tmp / "bundle", self.tmp / "trace.json"
        autopar("partition", self.tmp / "model.onnx", "--ngpus", 2, "--discover", "--out", bundle)
        files = []
        for name, array in loop.inputs(3, True, 1e9).items():
            np.save(self.tmp / f"{name}.npy", array)
            files += ["--input", f"{name}={self.tmp}/{name}.npy"]
        autopar("run", "--dir", bundle, "--device", "cpu", *files, "--threads", 2, "--repeat", 2,
                "--profile", trace)  # fmt: skip
        names = {event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]}
        self.assertTrue(any("Loop" in name for name in names), names)


if __name__ == "__main__":
    import unittest

    unittest.main()
