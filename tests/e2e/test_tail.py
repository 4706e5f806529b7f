"""Models whose last shapes only a run tells: whole and split, against ONNX Runtime."""

import json
import random
import socket
import subprocess

import jsonschema
import numpy as np
import onnx
import onnxruntime
from onnx import helper, parser

from support import AUTOPAR, SOURCE, TemporaryFolderTest, autopar, mpirun, relative_error

SPLITS = {"1": 1, "2": 2, "3": 3, "4": 4, "2x2": 4}

# Each makes {y} of the matrix {h}, whose rows are as many as a run finds above {least}.
ENDS = {
    "Sequence": """
        {y}_parts = SplitToSequence<axis = 0, keepdims = 0>({h})
        {y}_none = SequenceEmpty()
        {y}_where = Greater({h}, {least})
        {y}_places = NonZero({y}_where)
        {y}_count = Size({y}_places)
        {y}_at = Mod({y}_count, two_scalar)
        {y}_row = SequenceAt({y}_parts, {y}_at)
        {y}_more = SequenceInsert({y}_none, {y}_row)
        {y}_all = SequenceInsert({y}_more, {y}_row)
        {y} = ConcatFromSequence<axis = 0, new_axis = 1>({y}_all)""",
    "NonZero": """
        {y}_where = Greater({h}, {least})
        {y} = NonZero({y}_where)""",
    "GatherND": """
        {y}_where = Greater({h}, {least})
        {y}_places = NonZero({y}_where)
        {y}_each = Transpose({y}_places)
        {y} = GatherND({h}, {y}_each)""",
    "Compress": """
        {y}_most = ReduceMax<keepdims = 0>({h}, last)
        {y}_keep = Greater({y}_most, {least})
        {y}_rows = Compress<axis = 0>({h}, {y}_keep)
        {y} = Exp({y}_rows)""",
    "Unique": """
        {y}_near = Round({h})
        {y}_cut = Max({y}_near, {least})
        {y}, {y}_first, {y}_inverse, {y}_counts = Unique({y}_cut)""",
    "TopK": """
        {y}_where = Greater({h}, {least})
        {y}_ones = Cast<to = 7>({y}_where)
        {y}_count = ReduceSum<keepdims = 0>({y}_ones)
        {y}_flat = Reshape({h}, minus_one)
        {y}_k = Reshape({y}_count, minus_one)
        {y}_top, {y}_at = TopK({y}_flat, {y}_k)
        {y}_neg = Neg({y}_top)
        {y} = Add({y}_neg, one)""",
    "Range": """
        {y}_where = Greater({h}, {least})
        {y}_ones = Cast<to = 7>({y}_where)
        {y}_count = ReduceSum<keepdims = 0>({y}_ones)
        {y} = Range(zero, {y}_count, step)""",
    "Slice": """
        {y}_most = ReduceMax<keepdims = 0>({h}, last)
        {y}_keep = Greater({y}_most, {least})
        {y}_ones = Cast<to = 7>({y}_keep)
        {y}_count = ReduceSum<keepdims = 1>({y}_ones)
        {y}_rows = Slice({h}, origin, {y}_count, first)
        {y} = MatMul({y}_rows, square)""",
    "Expand": """
        {y}_most = ReduceMax<keepdims = 0>({h}, last)
        {y}_keep = Greater({y}_most, {least})
        {y}_ones = Cast<to = 7>({y}_keep)
        {y}_count = ReduceSum<keepdims = 1>({y}_ones)
        {y}_mean = ReduceMean<keepdims = 0>({h}, first)
        {y}_shape = Concat<axis = 0>({y}_count, width)
        {y} = Expand({y}_mean, {y}_shape)""",
    "NonMaxSuppression": """
        {y}_corner = Slice({h}, origin, two, last)
        {y}_size = Slice({h}, two, four, last)
        {y}_extent = Abs({y}_size)
        {y}_end = Add({y}_corner, {y}_extent)
        {y}_box = Concat<axis = 1>({y}_corner, {y}_end)
        {y}_boxes = Unsqueeze({y}_box, first)
        {y}_scored = ReduceMean<keepdims = 0>({h}, last)
        {y}_scores = Unsqueeze({y}_scored, zero_one)
        {y}_chosen = NonMaxSuppression({y}_boxes, {y}_scores, most, overlap, {least})
        {y}_row = Gather<axis = 1>({y}_chosen, two_scalar)
        {y} = Gather({h}, {y}_row)""",
    "If": """
        {y}_most = ReduceMax<keepdims = 0>({h})
        {y}_some = Greater({y}_most, {least})
        {y} = If({y}_some) <
            then_branch = yes () => (float[A, B] {y}_t) {{ {y}_t = Softmax({h}) }},
            else_branch = no () => (float[A] {y}_e) {{ {y}_e = ReduceSum<keepdims = 0>({h}, last) }}>""",
    "Loop": """
        {y}_most = ReduceMax<keepdims = 0>({h}, last)
        {y}_keep = Greater({y}_most, {least})
        {y}_ones = Cast<to = 7>({y}_keep)
        {y}_count = ReduceSum<keepdims = 0>({y}_ones)
        {y}_rows = Compress<axis = 0>({h}, {y}_keep)
        {y}_sum = ReduceSum<keepdims = 0>({y}_rows, first)
        {y} = Loop({y}_count, , {y}_sum) <body = body (int64 i, bool on, float[B] v)
            => (bool more, float[B] w) {{ more = Identity(on) row = Gather({y}_rows, i) w = Add(v, row) }}>""",
}
TYPES = {"NonZero": "int64[D, N]", "Range": "int64[N]", "GatherND": "float[N]", "Unique": "float[N]",
         "TopK": "float[N]", "If": "float", "Loop": "float[N]"}
CONSTANTS = """int64[1] last = {-1}, int64[1] first = {0}, int64[1] origin = {0}, int64[1] two = {2},
    int64[1] four = {4}, int64[1] minus_one = {-1}, int64[2] zero_one = {0, 1}, int64 two_scalar = {2},
    int64 zero = {0}, int64 step = {1}, int64 most = {5}, float overlap = {0.3}, float one = {1}"""


def weights(draw, *shape):
    return draw.standard_normal(shape).astype(np.float32)


def random_model(seed):
    """A multi-layer perceptron that ends in some of ENDS, and an output of known shape, or none."""
    choose, draw = random.Random(seed), np.random.default_rng(seed)
    rows, width = choose.randint(3, 9), choose.choice([4, 6, 8])
    hidden = choose.choice([12, 16])
    ends = choose.sample(sorted(ENDS), choose.randint(1, 3))
    lines = ["a = MatMul(x, up)", "b = Relu(a)", "h0 = MatMul(b, down)", "h1 = Tanh(h0)"]
    outputs = []
    limits = {}
    for i, end in enumerate(ends):
        y, least = f"y{i}", f"least{i}"
        # All, some or none are above it.
        limits[least] = choose.choice([-100.0, 0.1, 100.0])
        lines.append(ENDS[end].format(y=y, h=choose.choice(["h0", "h1"]), least=least))
        outputs.append(f"{TYPES.get(end, 'float[N, M]')} {y}")
    if choose.random() < 0.5:
        lines.append("known = Softmax(h0)")
        outputs.insert(choose.randint(0, len(outputs)), f"float[{rows}, {width}] known")
    constants = CONSTANTS + f", int64[1] width = {{{width}}}"
    constants += "".join(f", float {name} = {{{value}}}" for name, value in limits.items())
    body = "\n".join(lines)
    text = f"(float[{rows}, {width}] x) => ({', '.join(outputs)}) <{constants}> {{ {body} }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')
    for name, shape in {"up": (width, hidden), "down": (hidden, width), "square": (width, width)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights(draw, *shape), name))
    for output in model.graph.output:
        if output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and output.name.startswith("y") \
                and not output.type.tensor_type.shape.dim:
            output.type.tensor_type.ClearField("shape")  # of any rank
    return model, {"x": weights(draw, rows, width)}, ends


class TailTest(TemporaryFolderTest):
    def save(self, model, inputs, name="model"):
        folder = self.tmp / name
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        options = []
        for key, array in inputs.items():
            np.save(folder / f"{key}.npy", array)
            options += ["--input", f"{key}={folder}/{key}.npy"]
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), quiet)
        names = [port.name for port in session.get_outputs()]
        return folder, options, dict(zip(names, session.run(None, inputs), strict=True))

    def check(self, expected, out):
        for name, wanted in expected.items():
            actual = np.load(out / f"{name}.npy")
            self.assertEqual(actual.dtype, wanted.dtype, name)
            self.assertLessEqual(relative_error(wanted, actual), 1e-5, name)

    def parsed(self, text):
        return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')

    def test_random_models(self):
        empty = 0
        seen = set()
        for seed in range(16):
            model, inputs, ends = random_model(seed)
            folder, options, expected = self.save(model, inputs, f"model{seed}")
            empty += sum(array.size == 0 for array in expected.values())
            seen |= set(ends)
            for mesh, ranks in SPLITS.items():
                with self.subTest(seed=seed, ends=ends, mesh=mesh):
                    bundle, out = folder / f"bundle-{mesh}", folder / f"out-{mesh}"
                    autopar("partition", folder / "model.onnx", "--ngpus", ranks, "--mesh", mesh,
                            "--out", bundle)
                    autopar("run", "--dir", bundle, *options, "--output-dir", out)
                    self.check(expected, out)
        self.assertEqual(seen, set(ENDS))
        self.assertGreater(empty, 5)


class SmallTailTest(TailTest):
    """One model, every command."""

    test_random_models = None
    TEXT = """(float[6, 8] x, float[8] bias) => (float[N, 8] rows, float[6, 8] all, int64[2, M] at)
            <int64[1] last = {-1}> {
        a = MatMul(x, up)
        b = Relu(a)
        c = MatMul(b, down)
        all = Tanh(c)
        most = ReduceMax<keepdims = 0>(all, last)
        keep = Greater(most, least)
        kept = Compress<axis = 0>(all, keep)
        moved = Add(kept, bias)
        rows = MatMul(moved, square)
        where = Greater(rows, zero)
        at = NonZero(where)
    }"""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(5)
        self.model = self.parsed(self.TEXT)
        for name, shape in {"up": (8, 64), "down": (64, 8), "square": (8, 64)}.items():
            array = weights(draw, *shape)[:, :8] if name == "square" else weights(draw, *shape)
            self.model.graph.initializer.append(
                onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        for name, value in {"least": 0.999, "zero": 0.0}.items():
            self.model.graph.initializer.append(
                onnx.numpy_helper.from_array(np.array(value, np.float32), name))
        self.inputs = {"x": weights(draw, 6, 8), "bias": weights(draw, 8)}
        self.folder, self.options, self.expected = self.save(self.model, self.inputs)
        self.file, self.bundle = self.folder / "model.onnx", self.folder / "bundle"

    def partition(self, ranks, *more, expect=0):
        return autopar("partition", self.file, "--ngpus", ranks, "--out", self.bundle, *more,
                       expect=expect)

    def test_the_bundle_says_so(self):
        said = self.partition(2)
        self.assertRegex(said.stderr, r"tail, from .*Compress.*rank 0")
        self.assertIn("'rows' ?x8", said.stderr)
        meta = json.loads((self.bundle / "meta-info.json").read_text())
        jsonschema.validate(meta, json.loads((SOURCE / "lib/bundle/meta-info.schema.json").read_text()))
        self.assertEqual(meta["version"], 7)
        self.assertEqual(meta["tail"]["model_outputs"], ["rows", "all", "at"])
        self.assertEqual([out["dims"] for out in meta["tail"]["outputs"]], [[None, 8], [2, None]])
        self.assertEqual(sorted(path.name for path in self.bundle.glob("tail.*")), ["tail.onnx"])
        onnx.checker.check_model(onnx.load(self.bundle / "tail.onnx"))
        self.assertEqual(json.loads(autopar("inspect", self.bundle, "--json").stdout), meta)
        self.assertIn("'at' 2x?", autopar("inspect", self.bundle).stdout)
        plan = autopar("plan", self.file, "--ngpus", 2)
        self.assertIn("'rows' ?x8", plan.stdout)
        self.assertRegex(plan.stdout, r"why: the shape of its output 'kept' is not known")
        self.assertRegex(plan.stdout, r"rank 0 keeps its weights, 260 B .*depends on the run")

    def test_json_of_every_command_tells_the_same_tail(self):
        self.partition(2)
        of_bundle = json.loads((self.bundle / "meta-info.json").read_text())["tail"]
        del of_bundle["files"]
        self.assertRegex(of_bundle["first_node"], "Compress")
        self.assertRegex(of_bundle["reason"], "^the shape of its output 'kept' is not known")
        self.assertEqual(of_bundle["nodes"], 5)
        self.assertEqual(json.loads((self.bundle / "plan.json").read_text())["tail"], of_bundle)
        for command in (("plan", self.file, "--ngpus", 2, "--json"), ("inspect", self.file, "--json")):
            self.assertEqual(json.loads(autopar(*command).stdout)["tail"], of_bundle)
        autopar("plan", self.file, "--ngpus", 2, "--strategy", self.bundle / "plan.json")
        self.assertRegex(autopar("inspect", self.file).stdout, "tail, from .*Compress.*5 nodes")

    def test_inspect_tells_of_the_tail_for_shapes_that_are_given_or_assumed(self):
        self.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        for value in self.model.graph.output:
            value.type.tensor_type.ClearField("shape")
        onnx.save(self.model, self.file)
        self.assertRegex(autopar("inspect", self.file).stdout, "Assumed: batch 1;.*\ntail, from")
        self.assertIn("tail, from", autopar("inspect", self.file, "--shape", "x=6x8").stdout)
        autopar("inspect", self.file, "--shape", "x=6x9", expect=1)
        self.partition(2, "--shape", "x=6x8")
        autopar("inspect", self.bundle, "--shape", "x=6x8", expect=1)

    def test_weights_of_the_tail_are_rank_0s(self):
        """They count in what is predicted and measured, and a memory limit is held with them."""
        wide = weights(np.random.default_rng(2), 8, 4096)
        self.model.graph.node[-3].output[0] = "narrow"
        self.model.graph.node.insert(len(self.model.graph.node) - 2,
                                     helper.make_node("MatMul", ["narrow", "wide"], ["rows"]))
        self.model.graph.initializer.append(onnx.numpy_helper.from_array(wide, "wide"))
        self.model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4096
        before = weights(np.random.default_rng(3), 8, 65536)
        self.model.graph.node[0].input[0] = "spread"
        self.model.graph.node.insert(0, helper.make_node("MatMul", ["wider", "back"], ["spread"]))
        self.model.graph.node.insert(0, helper.make_node("MatMul", ["x", "before"], ["wider"]))
        for name, array in {"before": before, "back": np.ascontiguousarray(before.T)}.items():
            self.model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(self.model, self.file)
        self.partition(2, "--device", "cpu")
        meta = json.loads((self.bundle / "meta-info.json").read_text())
        of_tail = meta["tail"]["weight_bytes"]
        self.assertGreaterEqual(of_tail, wide.nbytes)
        ranks = meta["ranks"]
        self.assertEqual(ranks[0]["weight_bytes"], ranks[1]["weight_bytes"] + of_tail)
        plan = json.loads((self.bundle / "plan.json").read_text())
        self.assertEqual(plan["summary"]["peak_bytes"], max(rank["peak_bytes"] for rank in ranks))
        for start in (autopar, lambda *command: mpirun(2, *command)):
            ran = json.loads(start("run", "--dir", self.bundle, *self.options, "--json").stdout)
            for rank, measured in zip(ranks, ran["peak_bytes"], strict=True):
                self.assertLessEqual(measured, rank["peak_bytes"])
            self.assertGreaterEqual(ran["peak_bytes"][0], ran["peak_bytes"][1] + of_tail)
        self.partition(2, "--device", "cpu", "--memory", ranks[0]["peak_bytes"], "--force")
        limit = ranks[0]["peak_bytes"] - of_tail // 2  # it held if the tail had no weights
        command = [AUTOPAR, "partition", self.file, "--ngpus", "2", "--out", self.bundle, "--device", "cpu",
                   "--memory", str(limit), "--force"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # another plan
            meta = json.loads((self.bundle / "meta-info.json").read_text())
            self.assertLessEqual(max(rank["peak_bytes"] for rank in meta["ranks"]), limit)
        else:
            self.assertIn("nothing fits", done.stderr)

    def test_a_bundle_without_a_tail_is_as_it_was(self):
        del self.model.graph.output[2], self.model.graph.output[0]
        onnx.save(self.model, self.file)
        self.partition(2)
        meta = json.loads((self.bundle / "meta-info.json").read_text())
        self.assertEqual(meta["version"], 7)
        self.assertIsNone(meta["tail"])

    def test_weights_of_the_tail_may_be_absent_for_a_plan_alone(self):
        onnx.save(self.model, self.file, save_as_external_data=True, location="w.data", size_threshold=64)
        whole = autopar("plan", self.file, "--ngpus", 2).stdout
        (self.folder / "w.data").unlink()
        without = autopar("plan", self.file, "--ngpus", 2).stdout
        self.assertIn("tail, from", without)
        self.assertEqual(whole.split("tail, from")[1], without.split("tail, from")[1])

    def test_one_process_mpi_and_verify(self):
        self.partition(2, "--mesh", "2")
        for start in (autopar, lambda *command: mpirun(2, *command)):
            out = self.tmp / f"out{len(list(self.tmp.iterdir()))}"
            done = start("run", "--dir", self.bundle, *self.options, "--output-dir", out, "--repeat", 2,
                         "--profile", self.tmp / "trace.json", "--json")
            self.check(self.expected, out)
            self.assertGreaterEqual(json.loads(done.stdout)["tail_seconds"], 0)
            trace = json.loads((self.tmp / "trace.json").read_text())
            self.assertIn("tail", {event.get("name") for event in trace["traceEvents"]})
        autopar("verify", self.file, self.bundle, *self.options)

    def meet(self, ranks, options, *more):
        """A process a rank; each one's exit code and what it says."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started = [subprocess.Popen(
            [AUTOPAR, "run", "--dir", self.bundle, *options, *more, "--rank", str(rank),
             "--rendezvous", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True)
            for rank in range(ranks)]
        said = [process.communicate(timeout=300)[1] for process in started]
        return [(process.returncode, text) for process, text in zip(started, said, strict=True)]

    def test_ranks_that_meet(self):
        self.partition(2)
        out = self.tmp / "out"
        for code, said in self.meet(2, self.options, "--output-dir", out):
            self.assertEqual(code, 0, said)
        self.check(self.expected, out)

    def test_a_failure_of_the_tail_is_told_to_all_ranks(self):
        model = self.parsed("""(float[6, 8] x, int64[2] target) => (float[A, B] y) {
            a = Relu(x)
            y = Reshape(a, target) }""")
        onnx.save(model, self.file)
        self.partition(2)
        np.save(self.tmp / "target.npy", np.array([5, 7]))
        options = ["--input", f"x={self.folder}/x.npy", "--input", f"target={self.tmp}/target.npy"]
        for start in (autopar, lambda *command, expect: mpirun(2, *command, expect=expect)):
            failed = start("run", "--dir", self.bundle, *options, expect=1)
            self.assertRegex(failed.stderr, "tail.onnx: .*Reshape.*48|Reshape")
        errors = [line for line in failed.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(errors), 2, failed.stderr)
        self.assertEqual(sum("error: [rank 1] rank 0 failed: " in line for line in errors), 1, failed.stderr)
        # Nobody waits for the timeout, which no test would live to see.
        for rank, (code, said) in enumerate(self.meet(2, options, "--timeout", "100000",
                                                      "--output-dir", self.tmp / "none")):
            self.assertEqual(code, 1, said)
            self.assertEqual(len(said.splitlines()), 1, said)
            cause = "rank 0 failed: " if rank else ""
            self.assertRegex(said, rf"^error: \[rank {rank}\] {cause}.*Reshape")
            self.assertFalse((self.tmp / "none").exists() and list((self.tmp / "none").iterdir()))
        np.save(self.tmp / "target.npy", np.array([4, 12]))
        autopar("run", "--dir", self.bundle, *options, "--output-dir", self.tmp / "out")
        np.testing.assert_array_equal(np.load(self.tmp / "out" / "y.npy"),
                                      np.maximum(self.inputs["x"], 0).reshape(4, 12))

    def test_stages_and_microbatches(self):
        self.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 6
        self.partition(2, "--stages", 2, "--microbatches", 2, "--batch", "x")
        out = self.tmp / "out"
        autopar("run", "--dir", self.bundle, *self.options, "--output-dir", out)
        self.check(self.expected, out)

    def test_steps_take_the_last_inputs_and_refuse_the_tail_in_the_loop(self):
        self.partition(2)
        steps = np.stack([self.inputs["bias"] * 0, self.inputs["bias"]])
        np.save(self.tmp / "bias.npy", steps)
        out = self.tmp / "out"
        options = ["--input", f"x={self.folder}/x.npy", "--input", f"bias={self.tmp}/bias.npy"]
        autopar("run", "--dir", self.bundle, *options, "--steps", 2, "--output-dir", out)
        self.check(self.expected, out)
        for loop, name in (("rows=x", "rows"), ("all=bias", "all"), ("at=bias", "at")):
            refused = autopar("run", "--dir", self.bundle, *options, "--steps", 2, "--loop", loop, expect=1)
            self.assertIn(f"'{name}'", refused.stderr)
        refused = autopar("partition", self.file, "--ngpus", 2, "--out", self.tmp / "no", "--loop", "rows=x",
                          expect=1)
        self.assertIn("output 'rows' is the tail's", refused.stderr)

    def test_damage_is_found(self):
        self.partition(2)
        with open(self.bundle / "tail.onnx", "ab") as file:
            file.write(b"x")
        refused = autopar("run", "--dir", self.bundle, *self.options, expect=1)
        self.assertIn("tail.onnx", refused.stderr)

    def test_a_constant_leaves_less_to_the_tail(self):
        model = self.parsed("""(float[6, 8] x, int64[2] target) => (float[A, B] y) {
            a = Relu(x)
            y = Reshape(a, target) }""")
        onnx.save(model, self.file)
        np.save(self.tmp / "target.npy", np.array([4, 12]))
        self.partition(2, "--constant", f"target={self.tmp}/target.npy")
        self.assertFalse((self.bundle / "tail.onnx").exists())

    def test_in_the_middle_of_a_model_it_says_where_to_cut(self):
        model = self.parsed("""(float[6, 8] x) => (float[N, 8] y) <float least = {0}> {
            a = Relu(x)
            where = Greater(a, least)
            at = NonZero(where)
            each = Transpose(at)
            v = GatherND(a, each)
            column = Unsqueeze(v, last)
            wide = MatMul(column, up)
            y = Tanh(wide) }""")
        for name, array in {"up": weights(np.random.default_rng(1), 1, 8), "last": np.array([-1])}.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(model, self.file)
        refused = self.partition(2, expect=1)
        self.assertEqual(len(refused.stderr.strip().splitlines()), 1, refused.stderr)
        self.assertRegex(refused.stderr, r"NonZero.*100 % of the weights.*cut the model there.*'where'")
        self.assertFalse(self.bundle.exists())

    def test_work_behind_weights_is_the_middle_of_a_model_too(self):
        """Few weights behind NonZero, but nearly all that is computed, whatever a run finds."""
        model = self.parsed("""(float[8, 64, 64] x) => (float[N, 64, 62, 62] y) <int64[2] places = {1, 2},
                float least = {0}, int64[4] shape = {8, 1, 64, 64}, int64[2] flat = {8, 4096}> {
            rows = Reshape(x, flat)
            mixed = MatMul(rows, table)
            most = ReduceMax<keepdims = 0>(x, places)
            bias = ReduceMean<keepdims = 0>(mixed, one)
            moved = Add(most, bias)
            keep = Greater(moved, least)
            images = Reshape(x, shape)
            kept = Compress<axis = 0>(images, keep)
            y = Conv(kept, kernel) }""")
        draw = np.random.default_rng(1)
        for name, array in {"table": weights(draw, 4096, 3), "kernel": weights(draw, 64, 1, 3, 3),
                            "one": np.array([1])}.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(model, self.file)
        refused = self.partition(2, expect=1)
        self.assertEqual(len(refused.stderr.strip().splitlines()), 1, refused.stderr)
        self.assertRegex(refused.stderr, r"Compress.*9\d % of the arithmetic.*cut the model there.*'images'")
        told = json.loads(autopar("inspect", self.file, "--json").stdout)
        self.assertIn("% of the arithmetic", told["refusal"])

    def test_outputs_of_strings_are_refused(self):
        model = self.parsed("""(float[6, 8] x) => (string[N] y) {
            a = Relu(x)
            n = NonZero(a)
            y = Cast<to = 8>(n) }""")
        onnx.save(model, self.file)
        self.assertIn("output 'y' holds strings", self.partition(2, expect=1).stderr)
