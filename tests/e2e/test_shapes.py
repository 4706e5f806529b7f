"""One bundle, made with nothing said of shapes, runs inputs of other shapes as ONNX Runtime does."""

import json
import os

import numpy as np
import onnxruntime
from support import Model, TemporaryFolderTest, autopar, relative_error, with_exact_sums
from test_bare import drawn

# Extents of symbols; what is named differently by exporters means the same.
DRAWS = (
    {"batch": 1, "sequence": 7, "past": 5, "encoder": 9},
    {"batch": 3, "sequence": 10, "past": 0, "encoder": 4},
    {"batch": 2, "sequence": 1, "past": 11, "encoder": 13},
)
REFUSALS = (
    onnxruntime.capi.onnxruntime_pybind11_state.Fail,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
    onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException,
)
MESHES = (("--ngpus", 3), ("--ngpus", 4, "--mesh", "2x2"),
          ("--ngpus", 4, "--stages", 2, "--mesh", 2))  # fmt: skip


def extent(dim, draw):
    if isinstance(dim, int):
        return dim
    if " + " in dim:
        return sum(extent(part, draw) for part in dim.split(" + "))
    known = {"kv_cache_dim": 16, "total_sequence_length": draw["past"] + draw["sequence"],
             "all_sequence": draw["past"] + draw["sequence"]}  # fmt: skip
    if dim in known:
        return known[dim]
    for word in ("batch", "past", "encoder", "sequence"):
        if word in dim:
            return draw[word]
    raise AssertionError(f"nothing is drawn for '{dim}'")


class ShapesTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])
        options = with_exact_sums(onnxruntime.SessionOptions())
        self.session = onnxruntime.InferenceSession(self.model.file, options)

    def inputs_of(self, draw):
        constants = {name: self.model.inputs[name] for name in self.model.STRUCTURAL
                     if name in self.model.inputs}  # fmt: skip
        types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32",
                 "tensor(bool)": "bool"}  # fmt: skip
        inputs = {}
        for port in self.session.get_inputs():
            if port.name not in constants:
                shape = [extent(dim, draw) for dim in port.shape]
                inputs[port.name] = self.value(port.name, types[port.type], shape, draw)
        return inputs, constants

    @staticmethod
    def value(name, type_name, shape, draw):
        if name == "position_ids":
            rows = np.arange(draw["past"], draw["past"] + draw["sequence"])
            return np.broadcast_to(rows, shape).copy()
        return drawn(name, type_name, shape)

    def words_of(self, bundle, inputs):
        words = ["run", "--dir", bundle]
        for i, (name, value) in enumerate(inputs.items()):
            np.save(self.tmp / f"{i}.npy", value)
            words += ["--input", f"{name}={self.tmp}/{i}.npy"]
        return words

    def run_bundle(self, bundle, inputs):
        out = self.tmp / "out"
        done = autopar(*self.words_of(bundle, inputs), "--output-dir", out, "--json")
        return out, json.loads(done.stdout)

    def refuse(self, bundle, inputs):
        """What ONNX Runtime refuses, too, is refused in one line."""
        done = autopar(*self.words_of(bundle, inputs), expect=1)
        [line] = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertIn("does not take inputs of these shapes", line)

    def test_other_shapes_give_what_onnx_runtime_gives(self):
        bundle = self.tmp / "bundle"
        for mesh in MESHES:
            autopar("partition", self.model.file, *self.model.constant_options(), *mesh, "--out",
                    bundle, "--force")  # fmt: skip
            for draw in DRAWS:
                with self.subTest(mesh=mesh, draw=draw):
                    inputs, constants = self.inputs_of(draw)
                    try:
                        expected = self.session.run(None, {**inputs, **constants})
                    except REFUSALS:
                        self.refuse(bundle, inputs)
                        continue
                    out, measured = self.run_bundle(bundle, inputs)
                    names = [port.name for port in self.session.get_outputs()]
                    for name, value in zip(names, expected, strict=True):
                        safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in name)
                        made = np.load(out / f"{safe}.npy")
                        self.assertLess(relative_error(value, made), self.model.tolerance, name)
                    self.assertEqual(measured["collectives"], measured["predicted_collectives"])
                    most = zip(measured["peak_bytes"], measured["predicted_peak_bytes"], strict=True)
                    for peak, predicted in most:
                        self.assertLessEqual(peak, predicted)
