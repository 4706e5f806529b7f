"""More ranks than a dimension has places: of every family of operators one rank's share is empty, with
every strategy forced over three ranks, against ONNX Runtime on the whole."""

import subprocess
import unittest
from pathlib import Path

import numpy as np
from drawn_cases import ONNX, Case, Draw, Refused, write_test
from support import AUTOPAR, TemporaryFolderTest
from test_empty_dimensions import CASES, SIZES, ints
from test_empty_dimensions import Case as Shapes

CONFORMANCE = Path(AUTOPAR).parent / "onnx_conformance"
RANKS, SMALL = 3, 2
NOTHING = np.zeros(0, np.float32)


def weights(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def resized(mode, **attributes):
    """Resize by sizes, which have the extents that stay, too, and by factors."""
    return [
        Shapes("Resize", "bc44", constants=(NOTHING, NOTHING, lambda b, c, **_: ints(b, c, 7, 3)), mode=mode,
               **attributes),
        Shapes("Resize", "bc44", constants=(NOTHING, np.float32([1, 1, 2, 0.5])), mode=mode, **attributes),
        *(Shapes("Resize", "bc44", constants=(NOTHING, NOTHING, ints(7, 6)), mode=mode, axes=[2, 3],
                 keep_aspect_ratio_policy=policy, **attributes)
          for policy in ("stretch", "not_larger", "not_smaller")),
    ]  # fmt: skip


def recurrent(op_type, gates):
    return Shapes(op_type, "sbk", constants=(weights(1, gates * 5, 8), weights(1, gates * 5, 5)),
                  outputs=2, hidden_size=5)  # fmt: skip


# What no dimension of a whole model can be 0 in, by ONNX Runtime.
MORE = [
    *resized("nearest"), *resized("linear"), *resized("cubic"),
    *(recurrent(*each) for each in (("RNN", 1), ("GRU", 3), ("LSTM", 4))),
    Shapes("AveragePool", "bcmm", kernel_shape=[2, 2], pads=[0, 1, 1, 0]),
    Shapes("LpPool", "bcmm", kernel_shape=[2, 2]), Shapes("GlobalMaxPool", "bcmm"),
    Shapes("ConvTranspose", "bcmm", constants=(weights(6, 4, 3, 3),), strides=[2, 2]),
    Shapes("GroupNormalization", "bcmm", "c", "c", num_groups=2),
    Shapes("LRN", "bcmm", size=3), Shapes("LpNormalization", "bcs", axis=1),
    Shapes("ReduceMean", "bcs", constants=(ints(1),), keepdims=0),
    Shapes("OneHot", "bs", constants=(ints(4), np.float32([0, 1])), integers=(0,), axis=1),
    Shapes("GridSample", "bcmm", "bns2"),
    Shapes("AffineGrid", "b23", constants=(lambda b, **_: ints(b, 3, 4, 5),)),
]  # fmt: skip


def case_of(shapes, small):
    """With one letter's extent smaller than there are ranks. Numbers are positive, as some operators want
    them."""
    sizes = SIZES | {small: SMALL}
    random = np.random.default_rng(7)
    inputs = {}
    for i, letters in enumerate(shapes.shapes):
        extents = [sizes.get(letter) or int(letter) for letter in letters]
        if i not in shapes.integers:
            inputs[f"in{i}"] = random.uniform(0.1, 1, extents).astype(np.float32)
        else:
            truths = random.integers(0, 2, extents)
            inputs[f"in{i}"] = truths.astype(bool) if shapes.op_type == "Where" else truths
    fixed = {}
    for i, constant in enumerate(shapes.constants):
        fixed[f"constant{i}"] = np.asarray(constant(**sizes) if callable(constant) else constant)
    return Case(
        inputs=inputs | fixed, outputs=[f"out{i}" for i in range(shapes.outputs)],
        attributes=shapes.attributes, fixed=tuple(fixed),
    )  # fmt: skip


class EmptySharesTest(TemporaryFolderTest):
    def test_every_strategy(self):
        served = set()
        for at, shapes in enumerate([*CASES, *MORE]):
            for small in shapes.letters():
                try:
                    write_test(self.tmp / f"{at:03}_{shapes.op_type}_{small}", ONNX, shapes.op_type,
                               case_of(shapes, small), Draw("none"))  # fmt: skip
                    served.add(shapes.op_type)
                except Refused:
                    pass
        self.assertEqual({shapes.op_type for shapes in [*CASES, *MORE]} - served, set())
        done = subprocess.run([str(CONFORMANCE), str(self.tmp), "--ranks", str(RANKS)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
