"""What a section is given, and the time that it has."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import kernel_names
from .processes import ShortTime
from .program import Program
from .report import Report

SOURCE = Path(__file__).resolve().parents[2]


class Clock:
    """Seconds that are left, of a section and of all; a section may use what earlier ones saved."""

    def __init__(self, limit):
        self._end = time.monotonic() + limit
        self._section_end = self._end

    def start_section(self, kept_for_later):
        self._section_end = self._end - kept_for_later

    def left(self):
        return self._section_end - time.monotonic()


@dataclass
class Context:
    program: Program
    report: Report
    clock: Clock
    work: Path
    self_test: bool  # without a GPU, with small models: what is measured means nothing
    exports: object = None  # Exports, of the large models
    hold: Path | None = None  # nothing is timed before this file is there
    torch_sides: dict = field(default_factory=dict)  # TorchSide by model's name
    figures: dict = field(default_factory=dict)  # what later sections need of earlier ones

    def start_section(self, name, kept_for_later):
        self.clock.start_section(kept_for_later)
        self.program.record_kernels(self.work / "launched" / name)

    def launched_in(self):
        """Sections by the mangled name of each kernel that they have launched."""
        found = {}
        for file in sorted((self.work / "launched").glob("*")):
            for name in kernel_names.launched(file):
                found.setdefault(name, []).append(file.name)
        return found

    def timeout(self, most=120):
        """A command's timeout: what is left of the section, at least a moment."""
        left = self.clock.left()
        return most if left >= most else ShortTime(max(1.0, left))

    def torch_device(self):
        return "cpu" if self.self_test else "cuda"

    def wait_for_quiet(self):
        """Until others are done with the machine, where they are waited for."""
        while self.hold and not self.hold.exists():
            time.sleep(0.1)

    def is_late(self, needed=5):
        return self.clock.left() < needed

    def side_by_side(self):
        """How many processes of autopar are started at once."""
        return 1 if self.self_test else max(1, min(8, (os.cpu_count() or 2) // 2))
