"""Small models with which a fuzzer crashed an earlier version: planning, writing and running each of
them ends with 0, or with 1 and a line that says what is wrong with the model."""

import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from invalid_models import all_models, sound_models
from support import AUTOPAR

MODELS = sorted((Path(__file__).parent / "hostile_models").glob("*.onnx"))
MEMORY = 6_000_000_000  # of address space


class HostileModelsTest(unittest.TestCase):
    def run_limited(self, *arguments):
        """Whether the command ended with 0; fails unless it was that, or 1 and an error."""
        return self.finished(*arguments).returncode == 0

    def finished(self, *arguments):
        """The command's end; fails unless it was 0, or 1 and an error."""

        def limit_memory():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        command = [AUTOPAR, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=600, check=False, preexec_fn=limit_memory)  # fmt: skip
        told = f"{' '.join(command)}\nexit {done.returncode}\n{done.stderr[-1000:]}"
        self.assertIn(done.returncode, (0, 1), told)
        self.assertNotIn("internal error", done.stderr, told)
        self.assertNotIn("libprotobuf", done.stderr, told)
        self.assertNotIn("CHECK failed", done.stderr, told)
        if done.returncode == 1:
            self.assertRegex(done.stderr.strip().splitlines()[-1], "^error: .{10,}", told)
        return done

    def test_each_is_planned_written_and_run_or_refused(self):
        self.assertGreater(len(MODELS), 30)
        for model in MODELS:
            with self.subTest(model=model.name), tempfile.TemporaryDirectory() as folder:
                self.run_limited("plan", model, "--ngpus", 3)
                if not self.run_limited("plan", model, "--ngpus", 2):
                    continue
                bundle = Path(folder) / "bundle"
                if self.run_limited("partition", model, "--ngpus", 2, "--out", bundle):
                    self.run_limited("run", "--dir", bundle, "--random-inputs", 1, "--device", "cpu")

    def test_models_that_make_no_sense_are_told_in_one_line(self):
        count = 0
        for name, contents, words in all_models():
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "model.onnx"
                file.write_bytes(contents)
                done = self.finished("plan", file, "--ngpus", 2)
                self.assertEqual(done.returncode, 1, name)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertLess(len(done.stderr), 1000)
                self.assertIn("model.onnx", done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                if name.startswith("of_sizes"):
                    self.assertRegex(done.stderr, "node 'n['/]")
            count += 1
        self.assertGreater(count, 55)

    def test_models_like_those_that_make_sense_are_planned_without_a_word(self):
        for name, contents in sound_models():
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "model.onnx"
                file.write_bytes(contents)
                done = self.finished("plan", file, "--ngpus", 2)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
