"""ONNX's node tests with one input emptied, reshaped or extreme: each variant runs or is refused in
one line. AUTOPAR_ODD_INPUTS=all runs every variant instead of a drawn part."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import AUTOPAR, SOURCE, run

CONFORMANCE = Path(AUTOPAR).parent / "onnx_conformance"
DRAWN = 1000
SEED = 22
MEMORY = 8 << 30  # of address space: what takes more without bound ends the test


class OddInputsTest(unittest.TestCase):
    def test_each_variant_runs_or_is_refused(self):
        draws = [] if os.environ.get("AUTOPAR_ODD_INPUTS") == "all" else ["--count", DRAWN, "--seed", SEED]
        with tempfile.TemporaryDirectory() as folder:
            scripts = SOURCE / "tests" / "conformance"
            tests, variants = Path(folder) / "tests", Path(folder) / "odd"
            run(sys.executable, scripts / "make_onnx_tests.py", tests)
            run(sys.executable, scripts / "make_odd_tests.py", tests / "node", variants, *draws)
            done = subprocess.run(
                [CONFORMANCE, variants, "--odd", "--ranks", "2", "--tests-a-process", "200", "--memory-bytes", str(MEMORY)],
                capture_output=True, text=True, check=False)  # fmt: skip
        failures = re.findall(r"^  (?:refused|WRONG|CRASHED|HUNG) .*$", done.stdout, re.MULTILINE)
        self.assertEqual(failures, [])
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr)
        passed, failed, skipped = map(
            int, re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout).groups()
        )
        self.assertEqual(failed, 0)
        self.assertGreater(passed, 0.9 * (passed + skipped))
        self.assertGreaterEqual(passed + skipped, DRAWN)
        plans = int(re.search(r"^plans: (\d+)", done.stdout, re.MULTILINE).group(1))
        self.assertGreater(plans, passed)  # most variants run in one way or another


if __name__ == "__main__":
    unittest.main()
