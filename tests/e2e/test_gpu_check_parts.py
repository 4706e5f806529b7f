"""scripts/gpu_check without a GPU: every part on the emulation, and what a CPU can do of it."""

import os
import subprocess
import sys
from pathlib import Path

from support import AUTOPAR, SOURCE, TemporaryFolderTest

SCRIPT = SOURCE / "scripts" / "gpu_check"
sys.path.insert(0, str(SOURCE / "scripts"))
from gpu_checks import parts  # noqa: E402


class PartTest(TemporaryFolderTest):
    def check(self, device, part, *options):
        """The page and the written part, after a run in which nothing failed."""
        out = self.tmp / "out"
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("AUTOPAR_PLUGIN_DIR", "AUTOPAR_EMULATED_PLUGINS")}
        done = subprocess.run(
            [sys.executable, SCRIPT, Path(AUTOPAR).parents[1], "--self-test", device, "--part",
             str(part), "--out", out, "--time-limit", "1500", *options],
            capture_output=True, text=True, timeout=1600, check=False, env=environment)
        file = out / f"gpu-part{part}.json"
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr)
        page = file.with_suffix(".md").read_text()
        self.assertNotIn("FAILED", page)
        self.assertNotIn("no time was left", page)
        return page, file


class EmulationTest(PartTest):
    def test_part_1_launches_every_kernel(self):
        page, file = self.check("emulation", 1)
        for line in ("| mlp-dynamo, bfloat16 |", "| collectives, 1 rank |",
                     "| groups along two mesh axes, 2x2 ranks |", "| mlp-torchscript, 2x2 ranks |",
                     "| rank 1 of 4 is killed during runs |", "| ONNX's own tests |",
                     "| tests of kernels against loops |"):
            self.assertIn(line, page)
        kernels = parts.load(file)["kernels"]
        self.assertGreater(len(kernels["all"]), 900)
        self.assertLessEqual(set(kernels["launched_in"]), set(kernels["all"]))
        listed = parts.kernels_by_section([file])
        self.assertEqual([line for line in listed if line.endswith(": none")], [])

    def test_part_2(self):
        page, _ = self.check("emulation", 2)
        for line in ("| no such gpu |", "| two ranks on one gpu |", "| killed rank |",
                     "| launches a run, as the program counts them |"):
            self.assertIn(line, page)

    def test_part_3(self):
        page, _ = self.check("emulation", 3)
        for line in ("TFLOP/s", "| autopar calibrate |"):
            self.assertIn(line, page)


class CpuTest(PartTest):
    def test_every_part_does_what_needs_no_gpu(self):
        page, _ = self.check("cpu", 1)
        for line in ("| bytes of collectives counted as predicted | 48 runs",
                     "| NCCL |  | for GPUs alone | skipped |",
                     "| Kernels |  | for GPUs alone | skipped |"):
            self.assertIn(line, page)
        page, _ = self.check("cpu", 2)
        self.assertIn("| killed rank |", page)
        page, _ = self.check("cpu", 3)
        for line in ("TFLOP/s", "| autopar calibrate |"):
            self.assertIn(line, page)
