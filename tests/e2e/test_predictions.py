"""What is said of a plan beside its numbers: another policy that is faster, a preset of a GPU that
is not here, and what a run takes beside it."""

import json
import re
import unittest
from pathlib import Path

from support import MODELS, Model, TemporaryFolderTest, autopar

GPT2 = (MODELS / "gpt2-dynamo" / "model.onnx",)
MLP = (MODELS / "mlp-dynamo" / "model.onnx", "--shape", "x=8x48")


def plan(*options):
    return autopar("plan", *options)


class PredictionsTest(TemporaryFolderTest):
    def test_a_policy_that_is_faster_is_told(self):
        told = plan(*GPT2, "--ngpus", 4)
        line = re.search(r"--memory device would take (\S+) us instead of (\S+) us", told.stdout)
        fair, free = (
            json.loads(plan(*GPT2, "--ngpus", 4, "--memory", memory, "--json").stdout)["summary"]
            for memory in ("fair", "device")
        )
        self.assertAlmostEqual(float(line[1]), free["cost_seconds"] * 1e6, delta=1)
        self.assertAlmostEqual(float(line[2]), fair["cost_seconds"] * 1e6, delta=1)
        for options in (("--memory", "device"), ("--ngpus", 1)):
            done = plan(*GPT2, *(("--ngpus", 4) if "--ngpus" not in options else ()), *options)
            self.assertNotIn("--memory device", done.stdout)

    def test_a_preset_of_a_gpu_that_is_not_here_is_told(self):
        if Path("/proc/driver/nvidia/gpus").exists():
            self.skipTest("there may be such a GPU")
        told = plan(*MLP, "--ngpus", 2).stdout
        self.assertRegex(told, r"a run: .* predicted \(.*\) by the preset of h200, which is not here, ")
        told = plan(*MLP, "--ngpus", 2, "--device", "cpu").stdout
        self.assertNotIn("preset", told)

    def test_a_run_is_held_against_its_prediction(self):
        mlp = Model("mlp-dynamo")
        run = ("--random-inputs", 1, "--device", "cpu")
        mlp.partition(self.tmp / "gpu", 2)
        done = autopar("run", "--dir", self.tmp / "gpu", *run)
        self.assertNotIn("predicted", done.stderr)
        device = {
            "name": "slow",
            "source": "made up",
            "flops_per_second": {"float32": 1e6},
            "memory_bytes_per_second": 1e3,
            "launch_seconds": 1,
            "memory_bytes": 8e9,
            "links": [{"latency_seconds": 1, "bytes_per_second": 1e10}],
            "runs_on": "cpu",
        }
        file = self.tmp / "slow.json"
        file.write_text(json.dumps(device))
        meta = mlp.partition(self.tmp / "cpu", 2, "--device", file)
        done = autopar("run", "--dir", self.tmp / "cpu", *run)
        self.assertRegex(done.stderr, r"a run \(\d.* s predicted\), arena")
        self.assertRegex(done.stderr, r"differ by a factor of \d.*: autopar calibrate")
        told = json.loads(autopar("run", "--dir", self.tmp / "cpu", *run, "--json").stdout)
        self.assertEqual(told["predicted_seconds"], meta["plan"]["cost_seconds"])


if __name__ == "__main__":
    unittest.main()
