"""Rows of what was asked and what was measured: printed as they come, kept as a page."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

OK, MISSED, FAILED, SKIPPED, TOLD = "ok", "MISSED", "FAILED", "skipped", ""
COLUMNS = "| what | asked | measured | | command |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True)
class Row:
    section: str
    what: str
    asked: str
    measured: str
    verdict: str
    command: str = ""

    def cells(self):
        command = f"`{in_cell(self.command)}`" if self.command else ""
        words = (in_cell(self.what), in_cell(self.asked), in_cell(self.measured), self.verdict)
        return f"| {' | '.join((*words, command))} |"


def in_cell(text):
    """On one line, and without what ends a cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


class Report:
    """The page is written anew after each section, so that what was measured outlives a crash."""

    def __init__(self, file, head, short=None, judges_times=True):
        self.file, self.head = Path(file), head
        self.judges_times = judges_times  # else they are told: without a GPU they mean nothing
        self.short = short or {}  # what commands are shown with, by what they have
        self.rows = []
        self.notes = {}  # further text, by its heading
        self._section = ""

    def start(self, section):
        self._section = section
        print(f"\n== {section}\n{COLUMNS}", flush=True)

    def judge(self, what, asked, measured, is_met, command=""):
        self._add(what, asked, measured, OK if is_met else MISSED, command)

    def judge_time(self, what, asked, measured, is_met, command=""):
        """Judges a measured time."""
        self._add(what, asked, measured,
                  (OK if is_met else MISSED) if self.judges_times else TOLD, command)

    def tell(self, what, measured, command=""):
        """A figure that nothing was asked of."""
        self._add(what, "", measured, TOLD, command)

    def skip(self, what, reason):
        self._add(what, "", reason, SKIPPED, "")

    def fail(self, what, error, command=""):
        self._add(what, "", error, FAILED, command)

    def has_failed(self):
        return any(row.verdict in (MISSED, FAILED) for row in self.rows)

    def write(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.page())

    def write_part(self, part, kernels):
        """What parts.merged puts together, beside the page."""
        written = {"part": part, "head": self.head, "rows": list(map(asdict, self.rows)),
                   "notes": self.notes, "kernels": kernels}
        self.file.with_suffix(".json").write_text(json.dumps(written, indent=1) + "\n")

    def page(self):
        parts = [self.head]
        for section in dict.fromkeys(row.section for row in self.rows):
            cells = [row.cells() for row in self.rows if row.section == section]
            parts.append("\n".join([f"## {section}", COLUMNS, *cells]))
        parts += [f"## {heading}\n{text}" for heading, text in self.notes.items()]
        return "\n\n".join(parts) + "\n"

    def _add(self, what, asked, measured, verdict, command):
        for long, short in self.short.items():
            command = command.replace(long, short)
        row = Row(self._section, str(what), str(asked), str(measured), verdict, command)
        self.rows.append(row)
        print(row.cells(), flush=True)
