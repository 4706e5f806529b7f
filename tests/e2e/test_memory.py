"""Under limits of memory a command does what it is asked to, or fails with one line."""

import resource
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support import AUTOPAR, Model, TemporaryFolderTest, autopar

MIB = 1 << 20
# What the loader and libgomp say before main.
LOADERS = ("error while loading shared libraries", "libgomp: ", "cannot allocate memory in static TLS")


def run_under(address_space, *command):
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    arguments = [AUTOPAR, *map(str, command)]
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=600, check=False, preexec_fn=limit
    )


class MemoryTest(TemporaryFolderTest):
    def bundle(self, ranks):
        out = self.tmp / f"bundle{ranks}"
        self.model.partition(out, ranks)
        return out

    def outcome(self, done):
        """0, or 1 where it failed as it should."""
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("info")]
        if done.returncode == 0:
            return 0
        if any(text in done.stderr for text in LOADERS):
            self.assertIn(done.returncode, (1, 127), done.stderr)
            return 1
        self.assertEqual(done.returncode, 1, done.stderr)
        errors = [line for line in lines if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertNotIn("internal error", done.stderr)
        return 1

    def test_a_ladder_of_address_space(self):
        self.model = Model("mlp-dynamo")
        bundles = [self.bundle(1), self.bundle(2)]
        out = self.tmp / "out"
        results = self.tmp / "results"
        commands = [
            ("plan", self.model.file, *self.model.shape_options(), "--ngpus", 2),
            ("partition", self.model.file, *self.model.shape_options(), "--ngpus", 2, "--out", out),
            *(
                ("run", "--dir", bundle, *self.model.input_options(), "--threads", threads,
                 "--output-dir", results)
                for bundle, threads in ((bundles[0], 1), (bundles[1], 1), (bundles[1], 4))
            ),
        ]  # fmt: skip
        seen = {i: set() for i in range(len(commands))}
        for mebibytes in (60, 90, 105, 115, 125, 135, 145, 148, 155, 165, 175, 184, 195, 230, 400, 3000):
            for i, command in enumerate(commands):
                with self.subTest(command=command[0], mebibytes=mebibytes):
                    done = run_under(mebibytes * MIB, *command)
                    seen[i].add(self.outcome(done))
                    if done.returncode == 0 and command[0] == "run":
                        self.assertLess(self.model.error_of(results), 1e-4)
                    if done.returncode == 0 and command[0] == "partition":
                        autopar("inspect", out)
                        for file in out.iterdir():
                            file.unlink()
                        out.rmdir()
                    self.assertEqual([p.name for p in self.tmp.glob("*partial*")], [])
                    self.assertFalse(out.exists())
        self.assertTrue(all(outcomes == {0, 1} for outcomes in seen.values()), seen)

    def test_terabytes_are_refused_before_they_are_taken(self):
        n = 1 << 20
        ones = numpy_helper.from_array(np.array([n, n], dtype=np.int64), "s")
        nodes = [
            helper.make_node("Expand", ["x", "s"], ["e"]),
            helper.make_node("ReduceSum", ["e"], ["y"], keepdims=0),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
            [ones],
        )
        file = self.tmp / "huge.onnx"
        onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), file)
        bundle = self.tmp / "bundle"
        autopar("partition", file, "--ngpus", 1, "--memory", "100000GiB", "--out", bundle)
        for command in (("run",), ("serve", "--listen", "127.0.0.1:0")):
            done = autopar(*command, "--dir", bundle, *(["--random-inputs", 1] if command == ("run",) else []),
                           expect=1)  # fmt: skip
            self.assertRegex(done.stderr, r"needs \d{13} bytes beside the weights, and \d+ are free of")


if __name__ == "__main__":
    unittest.main()
