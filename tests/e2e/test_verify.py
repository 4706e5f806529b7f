"""`verify` against outputs that were made elsewhere, and what it and `partition` tell a script."""

import json
import shutil
import unittest

import numpy as np

from support import Model, TemporaryFolderTest, autopar


class VerifyTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("bert-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)

    def verify(self, *options, expect=0):
        return autopar("verify", self.model.file, self.bundle, *options, expect=expect)

    def expected_folder(self, change=lambda tensor: tensor):
        """Outputs that ONNX Runtime made, NAME.npy each."""
        folder = self.tmp / "expected"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, tensor in self.model.outputs.items():
            np.save(folder / f"{name}.npy", change(tensor))
        return folder

    def test_a_folder_of_onnx_tests_has_inputs_and_outputs(self):
        folder = self.model.folder / "test_data_set_0"
        told = json.loads(self.verify("--expected", folder, "--json").stdout)
        self.assertTrue(told["passed"])
        self.assertEqual(told["tolerance"], 1e-4)
        self.assertEqual(set(told["largest_relative_error"]), set(self.model.outputs))
        self.assertGreater(max(told["largest_relative_error"].values()), 0)

    def test_a_folder_of_arrays_has_outputs(self):
        self.verify("--expected", self.expected_folder(), *self.model.input_options())
        done = self.verify("--expected", self.expected_folder(), expect=1)
        self.assertIn("no tensor for input", done.stderr)

    def test_other_outputs_are_told(self):
        folder = self.expected_folder(lambda tensor: tensor * np.float32(1.01))
        done = self.verify("--expected", folder, *self.model.input_options(), "--json", expect=1)
        self.assertFalse(json.loads(done.stdout)["passed"])
        self.assertIn(f"differs from {folder} by", done.stderr)
        self.verify("--expected", folder, *self.model.input_options(), "--tolerance", 0.02)

    def test_outputs_that_cannot_be_compared_are_refused(self):
        inputs = self.model.input_options()
        folder = self.expected_folder(lambda tensor: tensor.astype(np.float64))
        self.assertIn("is float64", self.verify("--expected", folder, *inputs, expect=1).stderr)
        folder = self.expected_folder(lambda tensor: tensor[..., :1])
        self.assertIn("but float32", self.verify("--expected", folder, *inputs, expect=1).stderr)
        missing = next(folder.iterdir())
        missing.unlink()
        self.assertIn(missing.name, self.verify("--expected", folder, *inputs, expect=1).stderr)
        done = self.verify("--expected", self.tmp / "nowhere", *inputs, expect=1)
        self.assertIn("is no folder", done.stderr)

    def test_without_a_folder_the_whole_model_is_run(self):
        told = json.loads(self.verify("--json", "--tolerance", 0.5).stdout)
        self.assertTrue(told["passed"])
        self.assertEqual(told["tolerance"], 0.5)

    def test_partition_tells_its_plan_as_json(self):
        out = self.tmp / "again"
        options = [*self.model.shape_options(), "--ngpus", 2]
        told = json.loads(autopar("partition", self.model.file, *options, "--out", out, "--json").stdout)
        self.assertEqual(told["bundle"], str(out))
        plan = json.loads((out / "plan.json").read_text())
        for key in ("version", "summary", "collectives"):
            self.assertEqual(told[key], plan[key], key)
        self.assertNotIn("operators", told)


if __name__ == "__main__":
    unittest.main()
