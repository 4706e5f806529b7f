"""Programs outside use the installed library: find_package, headers that stand alone, the example."""

import re
import subprocess
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from support import AUTOPAR, MODELS, SOURCE, TemporaryFolderTest, run

BUILD = Path(AUTOPAR).parents[1]
MODEL = MODELS / "mlp-dynamo" / "model.onnx"
SHAPE = (2, 48)


class LibraryTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.tmp / "prefix"
        run("cmake", "--install", BUILD, "--prefix", self.prefix)

    def build_example(self):
        flags = re.search("^CMAKE_CXX_FLAGS:.*?=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
        run("cmake", "-S", SOURCE / "apps" / "examples", "-B", self.tmp / "build",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_FLAGS={flags[1]} -Wall -Werror")
        run("cmake", "--build", self.tmp / "build")
        return self.tmp / "build" / "split_and_run"

    def test_the_example_splits_a_model_and_runs_it(self):
        example, bundle = self.build_example(), self.tmp / "bundle"
        shape = "x=" + "x".join(map(str, SHAPE))
        done = run(example, MODEL, shape, bundle)
        self.assertIn("2 ranks", done.stdout)
        self.assertTrue((bundle / "rank1.onnx").exists())

        x = np.arange(1, 1 + np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
        (expected,) = onnxruntime.InferenceSession(MODEL).run(None, {"x": x})
        printed = [float(number) for number in re.findall(r"y\[0\] = (\S+)", done.stdout)]
        np.testing.assert_allclose(printed, [expected.flat[0]] * 2, rtol=1e-4)

        again = run(example, MODEL, shape, bundle, expect=1)
        self.assertRegex(again.stderr, "^error: --out .* exists")

        # Warnings are apart from what the program prints.
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)],
                                  "twice", [x], [y])
        model = self.tmp / "twice.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)],
                                    ir_version=10), model)
        warned = run(example, model, "x=2x4", self.tmp / "twice")
        self.assertIn("comes out with 4", warned.stderr)
        self.assertNotIn("comes out", warned.stdout)

    def test_each_header_compiles_by_itself_and_knows_the_standard_library_alone(self):
        headers = sorted((self.prefix / "include" / "autopar").glob("*.h"))
        self.assertIn("session.h", [header.name for header in headers])
        for header in headers:
            for name in re.findall(r"^#include (.*)$", header.read_text(), re.M):
                self.assertRegex(name, r"^<(autopar/[a-z_]+\.h|[a-z_]+(\.h)?)>$", header.name)
            subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I",
                            self.prefix / "include", "-include", header, "-x", "c++", "/dev/null"],
                           check=True)

    def test_nothing_of_others_is_exported(self):
        for library in ("planner", "runtime"):
            symbols = run("nm", "--dynamic", "--defined-only", "--demangle",
                          self.prefix / "lib" / f"libautopar_{library}.so").stdout.splitlines()
            self.assertGreater(len(symbols), 100)
            self.assertEqual([line for line in symbols if "autopar" not in line], [])


if __name__ == "__main__":
    unittest.main()
