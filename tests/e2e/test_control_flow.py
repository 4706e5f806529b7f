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
    def check(self, text, inputs, opset=18):
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
        onnx.checker.check_model(model)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        expected = session.run(None, inputs)
        folder = self.tmp / f"case{len(list(self.tmp.iterdir()))}"
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        files = []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            files += ["--input", f"{name}={folder}/{name}.npy"]
        for ranks in (1, 2):
            bundle, out = folder / f"bundle{ranks}", folder / f"out{ranks}"
            autopar("partition", folder / "model.onnx", "--ngpus", ranks, "--out", bundle)
            autopar("run", "--dir", bundle, *files, "--output-dir", out)
            for output, wanted in zip(session.get_outputs(), expected, strict=True):
                actual = np.load(out / f"{output.name}.npy")
                self.assertLessEqual(relative_error(wanted, actual), 1e-5, output.name)

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
