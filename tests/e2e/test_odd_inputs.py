"""ONNX's node tests and drawn contrib operators with one input emptied, reshaped or extreme: each
variant runs or is refused in one line, and what runs is what ONNX Runtime says, but for what
odd_differences.py lists with reasons. AUTOPAR_ODD_INPUTS=all runs every variant instead of a drawn
part, and fails where a row of that list has become needless."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from odd_differences import ANSWERED, REFUSED, row_of
from support import AUTOPAR, SOURCE, run

CONFORMANCE = Path(AUTOPAR).parent / "onnx_conformance"
SCRIPTS = SOURCE / "tests" / "conformance"
DRAWN = {"node": 700, "contrib": 250}
SEED = 22
MEMORY = 8 << 30  # of address space: what takes more without bound ends the test
RUNS_ALL = os.environ.get("AUTOPAR_ODD_INPUTS") == "all"


def write_tests(kind, folder):
    if kind == "contrib":
        run(sys.executable, Path(__file__).parent / "drawn_tests.py", folder, "--count", 5 if RUNS_ALL else 2)
        return folder
    run(sys.executable, SCRIPTS / "make_onnx_tests.py", folder)
    return folder / "node"


def answered_by_onnx_runtime(variants):
    """How many have an answer now."""
    script = [sys.executable, SCRIPTS / "ask_onnx_runtime.py", variants]
    told = subprocess.run(script, capture_output=True, text=True, check=True)
    return int(re.search(r"^answered: (\d+)$", told.stdout, re.MULTILINE).group(1))


class OddInputsTest(unittest.TestCase):
    def run_variants(self, variants):
        """What onnx_conformance says: no crash, no hang, nothing of an internal error."""
        done = subprocess.run(
            [CONFORMANCE, variants, "--odd", "--ranks", "2", "--tests-a-process", "200", "--memory-bytes", str(MEMORY)],
            capture_output=True, text=True, check=False)  # fmt: skip
        self.assertIn(done.returncode, (0, 1), done.stdout[-1000:] + done.stderr)
        self.assertEqual(re.findall(r"^  (?:refused|CRASHED|HUNG) .*$", done.stdout, re.MULTILINE), [])
        return done.stdout

    def explained(self, rows, lines):
        """How often each row explains one of (variant, line); fails where none does."""
        found = [(row_of(rows, variant), line) for line, variant in lines]
        self.assertEqual([line for row, line in found if row is None], [])
        return Counter(row for row, _ in found)

    def check(self, kind):
        draws = [] if RUNS_ALL else ["--count", DRAWN[kind], "--seed", SEED]
        with tempfile.TemporaryDirectory() as folder:
            variants = Path(folder) / "odd"
            tests = write_tests(kind, Path(folder) / "tests")
            run(sys.executable, SCRIPTS / "make_odd_tests.py", tests, variants, *draws)
            answered = answered_by_onnx_runtime(variants)
            told = self.run_variants(variants)
        wrong = re.findall(r"^(  WRONG ([^:]*): .*)$", told, re.MULTILINE)
        unanswered = re.findall(r"^(unanswered: ([^:]*): .*)$", told, re.MULTILINE)
        reasons = self.explained(ANSWERED, wrong) + self.explained(REFUSED, unanswered)
        passed, failed, skipped = map(int, re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped$", told).groups())
        self.assertEqual(failed, len(wrong))
        self.assertGreater(passed + failed, 0.9 * (passed + failed + skipped))
        self.assertGreaterEqual(passed + failed + skipped, DRAWN[kind])
        self.assertGreater(answered - failed - len(unanswered), 0.4 * DRAWN[kind])
        plans = int(re.search(r"^plans: (\d+)", told, re.MULTILINE).group(1))
        self.assertGreater(plans, passed)  # most variants run in one way or another
        print(f"{kind}: {passed + failed} variants, {answered} of them answered by ONNX Runtime")
        for row, count in reasons.most_common():
            print(f"{count:5} differ: {row.tests} {row.changes}: {row.reason}")
        return set(reasons)

    def test_answers_are_those_of_onnx_runtime(self):
        seen = set()
        for kind in DRAWN:
            with self.subTest(kind=kind):
                seen |= self.check(kind)
        if RUNS_ALL:
            self.assertEqual([row for row in ANSWERED + REFUSED if row not in seen], [])


if __name__ == "__main__":
    unittest.main()
