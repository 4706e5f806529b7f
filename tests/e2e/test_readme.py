"""What the README has by hand from a program is what the program prints."""

import unittest
from pathlib import Path

from support import AUTOPAR, SOURCE, run


class ReadmeTest(unittest.TestCase):
    def test_operators_are_those_of_the_tables(self):
        printed = run(Path(AUTOPAR).parent / "operator_support").stdout
        self.assertIn("MatMul", printed)
        self.assertIn(printed, (SOURCE / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
