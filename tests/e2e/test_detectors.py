"""A detector that picks its boxes itself finds what it finds in ONNX Runtime, split in every way, run by
autopar or by ONNX Runtime."""

import json
import os

import onnx_runtime_shards
from support import Model, TemporaryFolderTest, autopar, mpirun, relative_error

SPLITS = {"1": 1, "2": 2, "3": 3, "4": 4, "2x2": 4}


class DetectorTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])

    def check(self, bundle, meta, start):
        out = self.tmp / f"out-{len(list(self.tmp.iterdir()))}"
        done = start("run", "--dir", bundle, *self.model.input_options(), "--output-dir", out, "--json")
        self.assertLessEqual(self.model.error_of(out), self.model.tolerance)
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
        made = onnx_runtime_shards.with_tail(bundle, made)
        self.assertEqual(set(made), set(self.model.outputs))
        for name, expected in self.model.outputs.items():
            self.assertLessEqual(relative_error(expected, made[name]), self.model.tolerance, name)

    def test_one_process_a_rank_and_verify(self):
        bundle = self.tmp / "bundle"
        meta = self.model.partition(bundle, 2, "--time-limit", 5)
        self.check(bundle, meta, lambda *command: mpirun(2, *command))
        autopar("verify", self.model.file, bundle, *self.model.input_options())
