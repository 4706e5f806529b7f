"""Packages, made of the build that is there: Debian's, and a wheel. The wheel of this build finds the
libraries of others on the machine; that of the preset `portable` has them within."""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import onnxruntime

from support import AUTOPAR, MODELS, SOURCE, TOLERANCE, TemporaryFolderTest, relative_error, run

BUILD = Path(AUTOPAR).parents[1]
MLP = MODELS / "mlp-dynamo" / "model.onnx"
PACKAGES = {"autopar", "autopar-mpi", "libautopar-dev"}


class DebianTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        run(SOURCE / "scripts" / "package_debian", self.tmp / "packages", "--build", BUILD)
        self.files = {file.name.split("_")[0]: file for file in (self.tmp / "packages").iterdir()}

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.files[package], name).stdout.strip()

    def contents(self, package):
        lines = run("dpkg-deb", "--contents", self.files[package]).stdout.splitlines()
        return {line.split()[5].removeprefix("./") for line in lines}

    def run_unpacked(self, *arguments):
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": self.tmp / "root/usr/lib"}
        return subprocess.run([self.tmp / "root/usr/bin/autopar", *map(str, arguments)],
                              env=environment, check=True, capture_output=True, text=True)

    def test_packages_have_what_they_need_and_run(self):
        self.assertEqual(set(self.files), PACKAGES)
        needs = {package: self.field(package, "Depends") for package in PACKAGES}
        for library in ("libc6", "libstdc++6", "libdnnl", "libglpk40", "libprotobuf"):
            self.assertIn(library, needs["autopar"])
        self.assertNotIn("openmpi", needs["autopar"])
        self.assertIn("openmpi", needs["autopar-mpi"])
        for package in ("autopar-mpi", "libautopar-dev"):
            self.assertIn(f"autopar (= {self.field('autopar', 'Version')})", needs[package])

        program = self.contents("autopar")
        for name in ("bin/autopar", "share/man/man1/autopar.1.gz", "share/doc/autopar/copyright",
                     "share/bash-completion/completions/autopar",
                     "share/zsh/vendor-completions/_autopar",
                     "share/fish/vendor_completions.d/autopar.fish"):  # fmt: skip
            self.assertIn(f"usr/{name}", program)
        self.assertFalse([name for name in program if name.endswith((".h", ".cmake", ".py"))])
        self.assertIn("usr/include/autopar/session.h", self.contents("libautopar-dev"))
        self.assertIn("usr/lib/autopar/libautopar_mpi.so", self.contents("autopar-mpi"))

        for package in ("autopar", "autopar-mpi"):
            run("dpkg-deb", "--extract", self.files[package], self.tmp / "root")
        self.run_unpacked("partition", MLP, "--shape", "x=5x48", "--ngpus", 2, "--out",
                          self.tmp / "bundle")  # fmt: skip
        self.run_unpacked("run", "--dir", self.tmp / "bundle", "--random-inputs", 1)

        if shutil.which("lintian"):
            run("lintian", "--fail-on", "error,warning", *self.files.values())


@unittest.skipIf(not os.environ["AUTOPAR_PYTHON_DIR"], "the module of Python was not built")
class WheelTest(TemporaryFolderTest):
    def test_pip_installs_the_program_and_the_module(self):
        run(SOURCE / "scripts" / "package_wheel", "--build", BUILD, "--out", self.tmp)
        (wheel,) = self.tmp.glob("autopar-*-cp310-abi3-*.whl")
        venv = self.tmp / "venv"
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin" / "pip", "install", "--no-deps", "--no-index", wheel)
        self.assertTrue((venv / "share" / "man" / "man1" / "autopar.1.gz").exists())

        environment = {"PATH": f"{venv}/bin:{os.environ['PATH']}"}
        subprocess.run(["autopar", "partition", MLP, "--shape", "x=5x48", "--ngpus", "2", "--out",
                        self.tmp / "bundle"], env=environment, check=True, capture_output=True)
        # NumPy and nanobind's backend are the tests', in the place of those that pip would fetch.
        needed = next(path for path in sys.path if path.endswith("site-packages"))
        site = next(venv.glob("lib/python3*/site-packages"))
        (site / "needed.pth").write_text(needed + "\n")
        script = f"""
import autopar, numpy
assert autopar.__file__.startswith({str(venv)!r})
x = numpy.load({str(self.tmp / "x.npy")!r})
numpy.save({str(self.tmp / "y.npy")!r}, autopar.Session({str(self.tmp / "bundle")!r}).run({{"x": x}})["y"])
"""
        x = np.random.default_rng(1).random((5, 48), np.float32)
        np.save(self.tmp / "x.npy", x)
        subprocess.run(["python", "-c", script], env=environment, check=True, cwd=self.tmp)
        (expected,) = onnxruntime.InferenceSession(MLP).run(None, {"x": x})
        self.assertLessEqual(relative_error(expected, np.load(self.tmp / "y.npy")), TOLERANCE)
        run(venv / "bin" / "pip", "uninstall", "--yes", "autopar")
        self.assertFalse((venv / "bin" / "autopar").exists())
