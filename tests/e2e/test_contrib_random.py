"""Every operator of com.microsoft and ai.onnx.ml that autopar has in its table, on shapes, masks,
lengths, pasts, optional inputs and attributes drawn at random, against ONNX Runtime: whole, and
with every strategy forced over two ranks.

An operator that is added to the table needs a function that draws a case of it: see the `DRAWN` of
drawn_operators, drawn_attention and drawn_quantised. What ONNX Runtime refuses is drawn again;
forms that autopar refuses by name are not drawn."""

import re
import subprocess
import unittest
from collections import Counter
from pathlib import Path

import drawn_attention
import drawn_experts
import drawn_operators
import drawn_quantised
import drawn_trees
from drawn_cases import MICROSOFT, ML, ONNX, Draw, Refused, write_test
from support import ALL_CASES, AUTOPAR, SOURCE, TemporaryFolderTest

CONFORMANCE = Path(AUTOPAR).parent / "onnx_conformance"
CASES, SPLIT_CASES = (200, 40) if ALL_CASES else (80, 20)
MOST_REFUSED = 3 * CASES

DRAWN = {
    **drawn_operators.DRAWN,
    **drawn_attention.DRAWN,
    **drawn_quantised.DRAWN,
    **drawn_experts.DRAWN,
    **drawn_trees.DRAWN,
}
DOMAINS = {"microsoft_domain": MICROSOFT, "ml_domain": ML, '""': ONNX}


def operators_in_table():
    files = (SOURCE / "lib" / "graph" / "contrib").glob("*.cpp")
    line = re.compile(r'^ +\{(microsoft_domain|ml_domain|""),\s*"(\w+)",', re.MULTILINE)
    rows = [row for file in files for row in line.findall(file.read_text())]
    return {(DOMAINS[domain], name) for domain, name in rows}


def write_cases(folder, operator, draw_case, form=""):
    """Returns why ONNX Runtime refused what it did."""
    draw, refused, written = Draw("::".join(operator) + form), Counter(), 0
    while written < CASES:
        case = draw_case(draw)
        kind = "split" if written < SPLIT_CASES else "whole"
        try:
            write_test(folder / kind / f"case_{written:03}", *operator, case, draw)
            written += 1
        except Refused as error:
            refused[str(error)[-150:]] += 1
            if refused.total() > MOST_REFUSED:
                raise AssertionError(f"ONNX Runtime refuses nearly all: {refused}") from None
    return refused


class TableTest(unittest.TestCase):
    def test_every_operator_of_the_table_is_drawn(self):
        self.assertEqual(operators_in_table(), set(DRAWN))


class DrawnTest(TemporaryFolderTest):
    def check(self, folder, ranks, cases):
        """All cases pass, without an input being fixed that the case gives at run time."""
        command = [str(CONFORMANCE), str(folder), "--ranks", str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{cases} passed, 0 failed, 0 skipped", done.stdout)
        self.assertIn("inputs fixed when the model was read: in 0 tests", done.stdout)


def test_of(operator, draw_case, form=""):
    def test(self):
        write_cases(self.tmp, operator, draw_case, form)
        self.check(self.tmp, 1, CASES)
        self.check(self.tmp / "split", 2, SPLIT_CASES)

    return test


def tests_of(name, drawn, forms=None):
    """A test an operator, "test_Gelu", and one a further form of it."""
    tests = {f"test_{operator[1]}": test_of(operator, draw) for operator, draw in drawn.items()}
    for form, (operator, draw) in (forms or {}).items():
        tests[f"test_{operator[1]}_{form.replace(' ', '_')}"] = test_of(operator, draw, form)
    return type(name, (DrawnTest,), tests)


# One of these classes is one of CTest's tests (CMakeLists.txt).
OperatorsTest = tests_of("OperatorsTest", drawn_operators.DRAWN)
AttentionTest = tests_of("AttentionTest", drawn_attention.DRAWN, drawn_attention.FORMS)
QuantisedTest = tests_of("QuantisedTest", drawn_quantised.DRAWN)
ExpertsTest = tests_of("ExpertsTest", drawn_experts.DRAWN)
TreesTest = tests_of("TreesTest", drawn_trees.DRAWN)


if __name__ == "__main__":
    unittest.main()
