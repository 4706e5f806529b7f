"""A detector that picks its boxes itself finds what it finds in ONNX Runtime, split in every way, run by
autopar or by ONNX Runtime."""

import json
import os

import numpy as np
import onnx_runtime_shards
from support import Model, TemporaryFolderTest, autopar, mpirun, relative_error

SPLITS = {"1": 1, "2": 2, "3": 3, "4": 4, "2x2": 4}


def in_order_of(expected, made):
    """What was made, its detections in the order of the expected ones: those of equal scores, up to
    rounding, may come in any."""
    if "scores" not in expected or expected["scores"].ndim != 1:
        return made
    left = list(range(len(made["scores"])))
    order = []
    for score, box in zip(expected["scores"], expected["boxes"], strict=True):
        equal = [i for i in left if abs(made["scores"][i] - score) < 1e-5] or left[:1]
        order.append(min(equal, key=lambda i: np.abs(made["boxes"][i] - box).max()))
        left.remove(order[-1])
    return {name: array[order] for name, array in made.items()}


class DetectorTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])

    def check_outputs(self, made):
        self.assertEqual(set(made), set(self.model.outputs))
        for name, expected in self.model.outputs.items():
            self.assertEqual(made[name].shape, expected.shape)
        made = in_order_of(self.model.outputs, made)
        for name, expected in self.model.outputs.items():
            self.assertLessEqual(relative_error(expected, made[name]), self.model.tolerance, name)

    def check(self, bundle, meta, start):
        out = self.tmp / f"out-{len(list(self.tmp.iterdir()))}"
        done = start("run", "--dir", bundle, *self.model.input_options(), "--output-dir", out, "--json")
        self.check_outputs({path.stem: np.load(path) for path in out.glob("*.npy")})
        measured = json.loads(done.stdout)
        self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])
        for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
            self.assertLessEqual(peak, rank["peak_bytes"])

    def test_finds_the_same(self):
        self.assertTrue(all(array.size for array in self.model.outputs.values()))
        for mesh, ranks in SPLITS.items():
            with self.subTest(mesh=mesh):
                bundle = self.tmp / f"bundle-{mesh}"
                meta = self.model.partition(bundle, ranks, "--mesh", mesh, "--time-limit", 5)
                self.assertIsNotNone(meta["tail"])
                self.check(bundle, meta, autopar)
                if onnx_runtime_shards.IS_BUILT:
                    self.check_in_onnx_runtime(bundle)

    def check_in_onnx_runtime(self, bundle):
        made = onnx_runtime_shards.run_in_threads(bundle, self.model.inputs)
        self.check_outputs(onnx_runtime_shards.with_tail(bundle, made))

    def test_one_process_a_rank_and_verify(self):
        bundle = self.tmp / "bundle"
        meta = self.model.partition(bundle, 2, "--time-limit", 5)
        self.check(bundle, meta, lambda *command: mpirun(2, *command))
        autopar("verify", self.model.file, bundle, *self.model.input_options())
