"""A sample model in pipeline stages gives ONNX Runtime's output and the predicted bytes."""

import json
import os
import shutil
import zlib

import numpy as np
import onnxruntime
from support import ALL_CASES, TOLERANCE, Model, TemporaryFolderTest, autopar, mpirun, relative_error

BATCH = 5


def of_batch(tensor, rows):
    """The rows over and over, each time in another order of what is within."""
    repeated = [np.roll(tensor[i % len(tensor)], i // len(tensor), axis=0) for i in range(rows)]
    return np.stack(repeated).astype(tensor.dtype)


class StagesTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])
        inputs = {name: of_batch(tensor, BATCH) for name, tensor in self.model.inputs.items()}
        session = onnxruntime.InferenceSession(
            str(self.model.file), providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        self.expected = dict(zip(names, session.run(names, inputs), strict=True))
        self.shape_options, self.input_options = [], []
        for name, tensor in inputs.items():
            file = self.tmp / f"input-{len(self.input_options)}.npy"
            np.save(file, tensor)
            self.input_options += ["--input", f"{name}={file}"]
            self.shape_options += ["--shape", f"{name}={'x'.join(map(str, tensor.shape))}"]

    def partition(self, stages, ranks, microbatches):
        out = self.tmp / "bundle"
        autopar(
            "partition", self.model.file, *self.shape_options, "--ngpus", stages * ranks,
            "--stages", stages, "--mesh", ranks, "--microbatches", microbatches,
            "--out", out, "--force",
        )  # fmt: skip
        return out, json.loads((out / "meta-info.json").read_text())

    def check_shape_of_plan(self, meta, stages, ranks, microbatches):
        self.assertEqual(meta["microbatches"], microbatches)
        self.assertEqual(
            [stage["ranks"] for stage in meta["stages"]],
            [list(range(s * ranks, (s + 1) * ranks)) for s in range(stages)],
        )
        sent = [total for total in meta["profiles"][0]["collectives"] if total["kind"] == "send"]
        self.assertEqual(len(sent), 1)
        messages = [m for transfer in meta["profiles"][0]["transfers"] for m in transfer["messages"]]
        self.assertEqual(sent[0]["count"], microbatches * len(messages))
        self.assertEqual(sent[0]["bytes"], microbatches * sum(m["bytes"] for m in messages))

    def check_run(self, bundle, meta, ranks):
        for launcher, start in {"threads": autopar, "mpi": lambda *a: mpirun(ranks, *a)}.items():
            with self.subTest(launcher):
                out = self.tmp / "out"
                done = start(
                    "run", "--dir", bundle, *self.input_options, "--output-dir", out, "--json"
                )
                measured = json.loads(done.stdout)
                for name, expected in self.expected.items():
                    safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in name)
                    error = relative_error(expected, np.load(out / f"{safe}.npy"))
                    self.assertLessEqual(error, TOLERANCE, name)
                self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])
                for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
                    self.assertLessEqual(peak, rank["peak_bytes"])
                shutil.rmtree(out)

    def check(self, stages, ranks):
        """With one number of microbatches, another one for another model: all have all together."""
        turn = zlib.crc32(os.environ["AUTOPAR_MODEL"].encode()) + stages + ranks
        numbers = (1, 2, 5)
        for microbatches in numbers if ALL_CASES else [numbers[turn % 3]]:
            with self.subTest(microbatches=microbatches):
                bundle, meta = self.partition(stages, ranks, microbatches)
                self.check_shape_of_plan(meta, stages, ranks, microbatches)
                self.check_run(bundle, meta, stages * ranks)

    def test_whatever_is_best(self):
        """Stages or the whole model at once: either way, what was written runs."""
        for device in ("h200", "l4-ethernet"):
            with self.subTest(device=device):
                out = self.tmp / "bundle"
                autopar(
                    "partition", self.model.file, *self.shape_options, "--ngpus", 2,
                    "--stages", "auto", "--microbatches", 5, "--device", device,
                    "--out", out, "--force",
                )  # fmt: skip
                meta = json.loads((out / "meta-info.json").read_text())
                self.assertIn(meta["microbatches"], (1, 5))
                self.check_run(out, meta, 2)

    def test_two_stages_of_one_rank(self):
        self.check(2, 1)

    def test_two_stages_of_two_ranks(self):
        self.check(2, 2)

    def test_three_stages_of_one_rank(self):
        self.check(3, 1)

    def test_three_stages_of_two_ranks(self):
        self.check(3, 2)
