"""Exports of the large models, made in the background while other things are checked."""

import importlib.util
import os
import shutil
import sys

from . import processes
from .context import SOURCE
from .processes import Failure, Skip

EXPORTERS_NEED = ("torch", "transformers", "onnxscript")


def missing_packages():
    return [name for name in EXPORTERS_NEED if importlib.util.find_spec(name) is None]


class Exports:
    """Each model is a process of its own, as many at a time as memory surely suffices for."""

    def __init__(self, models, folder):
        self.folder = folder
        self._waiting = [model.name for model in models]
        self._at_once = max(2, (os.cpu_count() or 2) // 4)  # a process has four threads
        self._running = {}
        self._done = {}
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE / "scripts"),
                            "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "4"}
        if not missing_packages():
            self._start_more()

    def _start_more(self):
        while self._waiting and len(self._running) < self._at_once:
            name = self._waiting.pop(0)
            self._running[name] = processes.Process(
                [sys.executable, "-m", "gpu_checks.large_models", name, self.folder / name],
                self.environment)

    def file_of(self, name, timeout):
        """model.onnx, once it is there."""
        if missing_packages():
            raise Skip(f"not installed: {', '.join(missing_packages())}")
        if name in self._waiting:  # asked for sooner than it was planned
            self._waiting.remove(name)
            self._waiting.insert(0, name)
        while name not in self._done:
            current = name if name in self._running else next(iter(self._running))
            process = self._running.pop(current)
            self._done[current] = process.finish(timeout)
            self._start_more()
        done = self._done[name]
        if done.code != 0:
            raise Failure(f"the export failed: {done.last_line()}")
        return self.folder / name / "model.onnx"

    def drop_weights(self, name):
        """They take disk space; `autopar plan` needs none."""
        for file in (self.folder / name).glob("*.data"):
            file.unlink()

    def stop(self):
        for process in self._running.values():
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
