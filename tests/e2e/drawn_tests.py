"""Folders of tests of drawn cases, a few of each operator, with every input given at run time.

Usage: drawn_tests.py OUT [--count N]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import drawn_attention
import drawn_experts
import drawn_operators
import drawn_quantised
import drawn_trees
from drawn_cases import Draw, Refused, write_test

DRAWN = {
    **drawn_operators.DRAWN,
    **drawn_attention.DRAWN,
    **drawn_quantised.DRAWN,
    **drawn_experts.DRAWN,
    **drawn_trees.DRAWN,
}
MOST_REFUSED = 60


def write_tests(out, operator, draw_case, count):
    """Cases whose inputs cannot all be given at run time stay as they are drawn."""
    draw, written, refused = Draw("::".join(operator) + " odd"), 0, 0
    while written < count:
        case = draw_case(draw)
        folder = out / f"drawn_{operator[1]}_{written}"
        for asked in (replace(case, fixed=(), maybe_fixed=()), case):
            try:
                write_test(folder, *operator, asked, draw)
            except Refused:
                refused += 1
                continue
            written += 1
            break
        if refused > MOST_REFUSED:
            raise SystemExit(f"ONNX Runtime refuses nearly all of {operator[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=5, help="cases of an operator")
    options = parser.parse_args()
    for operator, draw_case in DRAWN.items():
        write_tests(options.out, operator, draw_case, options.count)
    print(f"{options.count} cases of {len(DRAWN)} operators")


if __name__ == "__main__":
    main()
