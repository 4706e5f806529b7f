"""`cmake --install` gives a folder that runs from wherever it is."""

import os
import subprocess
from pathlib import Path

from support import AUTOPAR, Model, TemporaryFolderTest, run


class InstallTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.tmp / "prefix"
        self.build = Path(AUTOPAR).parents[1]
        run("cmake", "--install", self.build, "--prefix", self.prefix)

    def installed(self, *arguments, expect=0):
        """Runs the installed program from a folder that has nothing to do with it."""
        elsewhere = self.tmp / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        done = subprocess.run([self.prefix / "bin" / "autopar", *map(str, arguments)],
                              cwd=elsewhere, env={"PATH": os.environ["PATH"]},
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def test_the_installed_program_partitions_and_runs(self):
        model = Model("mlp-dynamo")
        bundle, out = self.tmp / "bundle", self.tmp / "out"
        self.installed("partition", model.file, *model.shape_options(), "--ngpus", 2, "--out", bundle)
        self.installed("run", "--dir", bundle, *model.input_options(), "--output-dir", out)
        self.assertLessEqual(model.error_of(out), 1e-4)

    def test_every_plugin_that_was_built_is_there(self):
        def plugins(folder):
            return {file.name for file in (folder / "lib" / "autopar").glob("*.so")}

        self.assertEqual(plugins(self.prefix), plugins(self.build))

    def test_the_pages_are_there(self):
        pages = self.prefix / "share" / "doc" / "autopar"
        self.assertEqual({file.name for file in pages.iterdir()},
                         {"README.md", "ARCHITECTURE.md", "LICENSE", "docs"})
