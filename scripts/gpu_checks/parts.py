"""The parts of a check: sections that fit into one command of a borrowed machine, and what they wrote
put together."""

import json

from .kernels import UNREACHABLE
from .report import MISSED, OK, Report, Row

# Sections in order of importance, with the seconds that are kept for each while earlier ones run.
PARTS = {
    1: {"correctness": 110, "nccl": 180, "kernels": 200},
    2: {"sanitizers": 300, "launches": 30, "faults": 150},
    3: {"speed": 380, "products": 110, "cost": 30},
}
SECONDS = 530  # of a part
CALL_LINE = 2  # of a page's head: how the part was called, and when


def part_of(section):
    return next(part for part, sections in PARTS.items() if section in sections)


def load(file):
    return json.loads(file.read_text())


def merged(files, out):
    """A report of all parts, in their order."""
    written = sorted(map(load, files), key=lambda part: part["part"])
    first, *others = (part["head"] for part in written)
    calls = [head.splitlines()[CALL_LINE] for head in others]
    report = Report(out, "\n\n".join([first, *calls]))
    for part in written:
        report.rows += [Row(**row) for row in part["rows"]]
        report.notes.update(part["notes"])
    for part in PARTS:
        if part not in (each["part"] for each in written):
            report.notes[f"Part {part}"] = "It was not run."
    report.rows.append(row_of_kernels(written))
    return report


def row_of_kernels(written):
    """What no part launched."""
    every = set().union(*(part["kernels"]["all"] for part in written))
    launched = set().union(*(part["kernels"]["launched_in"] for part in written))
    missing = sorted(every - launched - set(UNREACHABLE))
    return Row("Kernels of all parts", "kernels that some test launched",
               f"all {len(every)} but {len(UNREACHABLE)} that no launch reaches",
               "; ".join([str(len(every & launched)), *missing]), MISSED if missing else OK)


def kernels_by_section(files):
    """A line a kernel: its name, and the part and section of each that launched it."""
    places = {}
    for part in sorted(map(load, files), key=lambda part: part["part"]):
        for name in part["kernels"]["all"]:
            places.setdefault(name, [])
        for name, sections in part["kernels"]["launched_in"].items():
            places.setdefault(name, []).extend(f"{part['part']} {section}" for section in sections)
    return [f"{name}: {', '.join(found) or UNREACHABLE.get(name, 'none')}"
            for name, found in sorted(places.items())]
