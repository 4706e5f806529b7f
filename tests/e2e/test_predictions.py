"""What is said of a plan beside its numbers: another policy that is faster."""

import json
import re
import unittest

from support import MODELS, TemporaryFolderTest, autopar

GPT2 = (MODELS / "gpt2-dynamo" / "model.onnx",)


def plan(*options):
    return autopar("plan", *options)


class PredictionsTest(TemporaryFolderTest):
    def test_a_policy_that_is_faster_is_told(self):
        told = plan(*GPT2, "--ngpus", 4)
        line = re.search(r"--memory device would take (\S+) instead of (\S+) ms", told.stderr)
        fair, free = (
            json.loads(plan(*GPT2, "--ngpus", 4, "--memory", memory, "--json").stdout)["summary"]
            for memory in ("fair", "device")
        )
        self.assertAlmostEqual(float(line[1]), free["cost_seconds"] * 1e3, delta=1e-3)
        self.assertAlmostEqual(float(line[2]), fair["cost_seconds"] * 1e3, delta=1e-3)
        for options in (("--memory", "device"), ("--ngpus", 1)):
            done = plan(*GPT2, *(("--ngpus", 4) if "--ngpus" not in options else ()), *options)
            self.assertNotIn("would take", done.stderr)


if __name__ == "__main__":
    unittest.main()
