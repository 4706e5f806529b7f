"""If, Loop and Scan against ONNX Runtime: whole and split over two ranks."""

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from support import TemporaryFolderTest, autopar, relative_error

random = np.random.default_rng(8)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


class ControlFlowTest(TemporaryFolderTest):
    def check(self, text, *cases, opset=18, reference=None):
        """One bundle for each number of ranks runs the inputs of every case. `reference` stands where
        ONNX Runtime ends the process: what each output is, by the inputs."""
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
        onnx.checker.check_model(model)
        if reference is None:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            names = [output.name for output in session.get_outputs()]
            reference = lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))
        folder = self.tmp / f"model{len(list(self.tmp.iterdir()))}"
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        for ranks in (1, 2):
            bundle, out = folder / f"bundle{ranks}", folder / f"out{ranks}"
            autopar("partition", folder / "model.onnx", "--ngpus", ranks, "--out", bundle)
            for inputs in cases:
                files = []
                for name, array in inputs.items():
                    np.save(folder / f"{name}.npy", array)
                    files += ["--input", f"{name}={folder}/{name}.npy"]
                autopar("run", "--dir", bundle, *files, "--output-dir", out)
                for name, wanted in reference(inputs).items():
                    actual = np.load(out / f"{name}.npy")
                    self.assertEqual(actual.dtype, wanted.dtype)
                    self.assertLessEqual(relative_error(wanted, actual), 1e-5, name)

    def test_if_takes_the_branch_that_the_run_tells(self):
        text = """(float[4, 6] x, bool c) => (float[4, 6] y) {
            y = If(c) <then_branch = a () => (float[4, 6] t) { t = Relu(x) },
                       else_branch = b () => (float[4, 6] e) { n = Neg(x) e = Exp(n) }>
        }"""
        for c in (False, True):
            self.check(text, {"x": floats(4, 6), "c": np.array(c)})

    def test_loop(self):
        text = """(float[4, 6] x) => (float[4, 6] y, float[5, 4] sums) <int64 n = {5}> {
            y, sums = Loop(n, , x) <body = b (int64 i, bool on, float[4, 6] v)
                => (bool more, float[4, 6] w, float[4] sum)
                <float half = {0.5}, int64[1] last = {1}> {
                more = Identity(on)
                f = Cast<to = 1>(i)
                scaled = Mul(v, half)
                w = Add(scaled, f)
                sum = ReduceSum<keepdims = 0>(w, last) }>
        }"""
        self.check(text, {"x": floats(4, 6)})

    def test_loop_that_the_run_ends(self):
        text = """(float[4, 6] x) => (float[4, 6] y) <int64 n = {9}, bool yes = {1}> {
            y = Loop(n, yes, x) <body = b (int64 i, bool on, float[4, 6] v)
                => (bool more, float[4, 6] w) <float step = {0.5}, float most = {2}> {
                w = Add(v, step)
                top = ReduceMax<keepdims = 0>(w)
                more = Less(top, most) }>
        }"""
        for scale in (0.1, 1.0, 5.0):
            self.check(text, {"x": scale * floats(4, 6)})

    def test_scan(self):
        text = """(float[3] s, float[3, 5] x, float[5, 2] z)
                => (float[3] t, float[3, 5] y, float[5, 2] u) {
            t, y, u = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0],
                scan_input_directions = [1, 0], scan_output_axes = [1, 0],
                scan_output_directions = [0, 1],
                body = b (float[3] a, float[3] e, float[2] f)
                    => (float[3] sum, float[3] out, float[2] g) {
                    sum = Add(a, e)
                    out = Tanh(sum)
                    g = Neg(f) }>(s, x, z)
        }"""
        self.check(text, {"s": floats(3), "x": floats(3, 5), "z": floats(5, 2)})

    def test_scan_over_a_batch_of_sequences(self):
        text = """(float[2, 3] s, float[2, 5, 3] x) => (float[2, 3] t, float[2, 5, 3] y) {
            t, y = Scan<num_scan_inputs = 1, body = b (float[3] a, float[3] e)
                    => (float[3] sum, float[3] out) {
                    sum = Add(a, e)
                    out = Tanh(sum) }>(, s, x)
        }"""
        self.check(text, {"s": floats(2, 3), "x": floats(2, 5, 3)}, opset=8)

    def test_loop_of_no_round_collects_nothing(self):
        """A count of 0, a condition that never held, a count below 0; what follows reads nothing, too."""
        for given, constants in (("n, ", "int64 n = {0}"), ("n, no", "int64 n = {4}, bool no = {0}"),
                                 ("n, ", "int64 n = {-2}")):
            self.check(f"""(float[4, 6] x) => (float[4, 6] y, float[0, 6, 4] all, float[0, 4] sums, float[2, 6, 4] more)
                <{constants}, int64[1] last = {{1}}> {{
                r = Relu(x)
                y, all, sums = Loop({given}, r) <body = b (int64 i, bool on, float[4, 6] v)
                    => (bool goes_on, float[4, 6] w, float[6, 4] turned, float[4] sum) {{
                    goes_on = Identity(on)
                    row = Gather(x, i)
                    w = Add(v, row)
                    turned = Transpose(w)
                    sum = ReduceSum<keepdims = 0>(w, last) }}>
                one = Transpose(r)
                axis = Constant<value_ints = [0]> ()
                wide = Unsqueeze(one, axis)
                neg = Neg(all)
                more = Concat<axis = 0>(wide, neg, wide)
            }}""", {"x": floats(4, 6)})

    def test_scan_over_nothing(self):
        """A scan in which ONNX Runtime divides by zero."""
        for axis in (0, 2, -1):
            shape = [4, 5]
            shape.insert(axis % 3, 0)
            self.check(f"""(float[4] s, float[3, 0, 4] x) => (float[4] t, float{shape} y) {{
                a = Relu(s)
                t, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                            scan_output_axes = [{axis}], scan_output_directions = [1],
                            body = b (float[4] a, float[3, 4] e) => (float[4] sum, float[4, 5] out)
                            <int64[2] shape = {{4, 5}}, int64[1] places = {{0}}, int64[1] second = {{1}}> {{
                        some = ReduceSum<keepdims = 0>(e, places)
                        sum = Add(a, some)
                        tall = Unsqueeze(sum, second)
                        out = Expand(tall, shape) }}>(a, x)
            }}""", {"s": floats(4), "x": floats(3, 0, 4)}, reference=lambda inputs, shape=shape: {
                "t": np.maximum(inputs["s"], 0), "y": np.zeros(shape, np.float32)})

    def test_loop_in_the_tail_makes_some_rounds_or_none(self):
        """Its rounds are the rows that a run finds, and the values that no round makes have a shape."""
        text = """(float[4, 6] x, int64 n) => (float[6] y, float[N, 3, 2] all, int64[M, 1] at) <int64[1] last = {1},
                float zero = {0}, bool yes = {1}, int64[2] square = {3, 2}, int64[1] one = {1}> {
            r = Relu(x)
            most = ReduceMax<keepdims = 0>(r, last)
            keep = Greater(most, zero)
            rows = Compress<axis = 0>(r, keep)
            shape = Shape(rows)
            start = Constant<value_int = 0> ()
            count = Gather(shape, start)
            first = Gather(x, start)
            y, all = Loop(count, , first) <body = b (int64 i, bool on, float[6] v)
                => (bool more, float[6] w, float[3, 2] turned) {
                more = Identity(on)
                row = Gather(rows, i)
                w = Add(v, row)
                turned = Reshape(w, square) }>
            at = Loop(n, yes) <body = c (int64 j, bool go) => (bool still, int64[1] place) {
                still = Identity(go)
                place = Reshape(j, one) }>
        }"""
        x = floats(4, 6)
        cases = [{"x": values, "n": np.array(n)} for values, n in ((x, 3), (-abs(x), 0), (abs(x), 1), (-abs(x), -1))]
        self.check(text, *cases)
