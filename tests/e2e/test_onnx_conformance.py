"""ONNX's own tests, whole and with every strategy of every operator forced over two ranks."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import onnx
from onnx import numpy_helper
from support import AUTOPAR, SOURCE, run

CONFORMANCE = Path(AUTOPAR).parent / "onnx_conformance"
MAY_FAIL = re.compile(r"(?!)")  # nothing
# Squeezenet's channels are alike, and come to 9e9 before a Softmax: one that a kernel adds up in another
# order than the rest, as with AVX2 those of the last vector, is all of the output.
HAS_AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text()
MAY_FAIL_LIGHT = MAY_FAIL if HAS_AVX512 else re.compile("light_squeezenet")
# What half precision makes of a written-out attention depends on the order of its roundings.
MAY_FAIL_SPLIT = re.compile(r"test_attention_4d_\w*fp16_expanded")


class OnnxConformanceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tests = Path(folder.name)
        run(sys.executable, SOURCE / "tests" / "conformance" / "make_onnx_tests.py", cls.tests)

    def check(self, kinds, ranks, may_fail, at_least):
        command = [CONFORMANCE, *(self.tests / kind for kind in kinds), "--ranks", ranks]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        failures = re.findall(r"^  (\w+) (\w+): (.*)$", done.stdout, re.MULTILINE)
        unexpected = [failure for failure in failures if not may_fail.match(failure[1])]
        self.assertEqual(unexpected, [])
        last = done.stdout.strip().splitlines()[-1]
        passed, failed, _ = map(
            int, re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", last).groups()
        )
        self.assertEqual(failed, len(failures), done.stdout)
        self.assertGreaterEqual(passed, at_least)
        fixed = re.findall(r"^fixed: \w+, (\d+) of (\d+) inputs, since else: .+$", done.stdout, re.MULTILINE)
        counted = re.search(r"inputs fixed when the model was read: in (\d+) tests, all of them in (\d+)$",
                            done.stdout, re.MULTILINE).groups()
        folded = sum(some == every for some, every in fixed)
        self.assertEqual((len(fixed), folded), tuple(map(int, counted)))
        self.assertEqual(done.returncode, 1 if failed else 0)

    def test_whole(self):
        kinds = ("node", "simple", "pytorch-converted", "pytorch-operator")
        self.check(kinds, 1, MAY_FAIL, 1900)

    def test_on_two_ranks(self):
        self.check(("node", "simple"), 2, MAY_FAIL_SPLIT, 1780)

    def test_real_topologies(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                may_fail = MAY_FAIL if ranks == 1 else MAY_FAIL_LIGHT
                self.check(("light",), ranks, may_fail, 9 if may_fail is MAY_FAIL else 8)

    def test_tests_that_share_a_process_are_told_one_by_one(self):
        """The one that fails ends its process, and those behind it go on in another."""
        with tempfile.TemporaryDirectory() as folder:
            names = ("add", "cos", "mul", "neg", "relu", "sub")
            for name in names:
                shutil.copytree(self.tests / "node" / f"test_{name}", Path(folder) / f"test_{name}")
            outputs = [Path(folder) / f"test_{name}" / "test_data_set_0" / "output_0.pb"
                       for name in names]  # fmt: skip
            tensor = onnx.load_tensor(outputs[2])
            outputs[2].write_bytes(
                numpy_helper.from_array(-numpy_helper.to_array(tensor)).SerializeToString()
            )
            for tests, jobs in ((1, 2), (2, 1), (10, 1), (10, 3)):
                with self.subTest(tests=tests, jobs=jobs):
                    done = run(
                        CONFORMANCE, folder, "--jobs", jobs, "--tests-a-process", tests, expect=1
                    )
                    self.assertRegex(done.stdout, r"WRONG test_mul: output 'z': element 0 is ")
                    self.assertIn("5 passed, 1 failed, 0 skipped", done.stdout)

    def test_a_folder_without_tests_is_refused_in_one_line(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run(CONFORMANCE, empty, expect=1)
        self.assertIn("has no tests", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
