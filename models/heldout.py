#!/usr/bin/env python3
"""Tries a release on architectures that no test has: exports them, splits them, compares.

    heldout.py [--only NAME...]    all, or those whose names begin so

Each model of zoo/heldout.py goes through both exporters, is checked (against PyTorch, and that every
input changes what comes out), planned for each of --device, split over each of --ranks at two shapes,
and run on CPUs; its outputs are compared with ONNX Runtime's, the bytes that it predicts with those
that it counts, and the memory.
A model has a process of its own, so that none ends the trial of the others. Prints a table; exit
code 1 if any number is wrong. What is refused, by an exporter or by autopar, is told in a line.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from zoo import heldout, making
from zoo.exporters import ROWS
from zoo.table import EXPORTERS

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-4  # of autopar against ONNX Runtime, relative to the largest value
OF_EXPORTS = 1e-3  # of ONNX Runtime against PyTorch
SHAPES = {"wide": (ROWS, 16), "odd": (3, 11)}  # rows and tokens
COLUMNS = ("architecture", "exporter", "plan for", "ranks", "error", "bytes", "memory", "")


class Refused(Exception):
    """A refusal in one line, with the name of who refused."""


def cause_of(error):
    """Type and message of what was raised first."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


@contextlib.contextmanager
def silence():
    """Drops all standard output: exporters print whole graphs from C++."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def largest_error(expected, actual):
    if expected.shape != actual.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    expected = expected.astype(np.float64)
    scale = max(np.abs(expected).max(), 1e-30)
    error = float(np.abs(expected - actual).max() / scale)
    return error if np.isfinite(error) else float("inf")


def changed(tensor):
    """Another tensor of the same type and shape."""
    rolled = tensor.roll(1, -1)
    if torch.equal(rolled, tensor):
        rolled = tensor / 2 if tensor.is_floating_point() else tensor // 2
    return rolled.to(tensor.dtype).numpy()


def check_outputs(session, feeds, results):
    """A model whose output is constant, or saturated, or deaf to an input, tells nothing."""
    for name, output in results.items():
        size = np.abs(output).max()
        if not np.isfinite(output).all() or not 1e-3 < size < 1e4:
            raise Refused(f"the model: '{name}' has magnitudes of {size:.1e}")
        if np.ptp(output) < 1e-2 * size:
            raise Refused(f"the model: '{name}' is as good as constant")
    for name, tensor in feeds.items():
        others = session.run(None, feeds | {name: changed(torch.from_numpy(tensor))})
        largest = max(largest_error(a, b) for a, b in zip(results.values(), others, strict=True))
        if not largest > 100 * TOLERANCE:
            raise Refused(f"the model: '{name}' changes outputs by {largest:.1e} alone")


@dataclass
class Case:
    """One shape: what goes in, and what ONNX Runtime makes of it."""

    name: str
    feeds: dict
    results: dict


def export(name, exporter, folder):
    """model.onnx with the widest case's data, and a case for each shape that the model takes."""
    build, sizes = heldout.HELDOUT[name]
    torch.manual_seed(0)
    sample = build(**sizes)
    heldout.redraw(sample)
    file = folder / "model.onnx"
    try:
        with silence():
            EXPORTERS[exporter](sample, SHAPES["wide"][1], file)
    except Exception as error:
        raise Refused(f"the exporter: {cause_of(error)}") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Refused(f"ONNX Runtime: {last_line(str(error))}") from error
    cases = []
    for shape, (rows, tokens) in SHAPES.items():
        try:
            feeds, results = making.run_checked(session, sample, rows, tokens, OF_EXPORTS)
        except (Exception, SystemExit) as error:
            if cases:  # the trace holds for one shape alone
                return file, cases
            raise Refused(f"the export: {last_line(str(error))}") from error
        cases.append(Case(shape, feeds, results))
    check_outputs(session, cases[0].feeds, cases[0].results)
    making.save_test_data(folder, cases[0].feeds, cases[0].results)
    return file, cases


def run_autopar(autopar, *arguments):
    done = subprocess.run([autopar, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise Refused(f"autopar {arguments[0]} was ended by signal {-done.returncode}")
    if done.returncode != 0:
        raise Refused(f"autopar {arguments[0]}: {last_line(done.stderr)}")
    return done.stdout


@dataclass
class Outcome:
    """What one mesh gave, over all shapes."""

    error: float = 0.0
    bytes_equal: bool = True
    memory: tuple = (float("inf"), 0.0)  # predicted over measured: the least, the most
    refusal: str = ""

    def is_wrong(self):
        return not self.refusal and (
            self.error > TOLERANCE or not self.bytes_equal or self.memory[0] < 1)

    def cells(self):
        if self.refusal:
            return ["", "", "", self.refusal]
        error = f"{self.error:.0e}" if self.error else "0"
        return [error, "equal" if self.bytes_equal else "DIFFER", f"{self.memory[1]:.2f}",
                "WRONG" if self.is_wrong() else ""]


def try_case(autopar, file, device, mesh, case, folder, outcome):
    bundle, out = folder / "bundle", folder / "out"
    shapes, inputs = [], []
    for name, array in case.feeds.items():
        given = folder / f"{len(inputs)}.npy"
        np.save(given, array)
        shapes += ["--shape", f"{name}={'x'.join(map(str, array.shape))}"]
        inputs += ["--input", f"{name}={given}"]
    ranks = np.prod([int(axis) for axis in mesh.split("x")])
    run_autopar(autopar, "partition", file, *shapes, "--device", device, "--ngpus", ranks,
                "--mesh", mesh, "--time-limit", 10, "--out", bundle)
    measured = json.loads(
        run_autopar(autopar, "run", "--dir", bundle, *inputs, "--output-dir", out, "--json"))
    meta = json.loads((bundle / "meta-info.json").read_text())
    for name, expected in case.results.items():
        safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in name)
        outcome.error = max(outcome.error, largest_error(expected, np.load(out / f"{safe}.npy")))
    outcome.bytes_equal &= measured["collectives"] == meta["profiles"][0]["collectives"]
    for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
        ratio = rank["peak_bytes"] / max(peak, 1)
        outcome.memory = min(outcome.memory[0], ratio), max(outcome.memory[1], ratio)


def try_mesh(autopar, file, device, mesh, cases):
    outcome = Outcome()
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                try_case(autopar, file, device, mesh, case, Path(folder), outcome)
            except Refused as refusal:
                outcome.refusal = f"{case.name}: {refusal}" if len(cases) > 1 else str(refusal)
                return outcome
    return outcome


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def try_model(options):
    """Runs in a process of its own; 1 if a number is wrong."""
    name, exporter = options.model
    folder = options.out / f"{name}-{exporter}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with torch.no_grad():
            file, cases = export(name, exporter, folder)
    except Refused as refusal:
        print_row(name, exporter, *[""] * 5, str(refusal))
        return 0
    is_wrong = False
    for device, mesh in itertools.product(options.device, options.ranks):
        outcome = try_mesh(options.autopar, file, device, mesh, cases)
        is_wrong |= outcome.is_wrong()
        print_row(name, exporter, device, mesh, *outcome.cells())
    if not is_wrong and not options.keep:
        shutil.rmtree(folder)
    return int(is_wrong)


def try_all(options):
    print_row(*COLUMNS)
    print_row(*["---"] * len(COLUMNS))
    is_wrong = False
    for name in heldout.HELDOUT:
        if not name.startswith(tuple(options.only)):
            continue
        for exporter in options.exporters:
            command = [sys.executable, __file__, *sys.argv[1:], "--out", options.out,
                       "--model", name, exporter]
            try:
                done = subprocess.run(command, timeout=options.minutes * 60, text=True, check=False,
                                      stderr=subprocess.PIPE)
            except subprocess.TimeoutExpired:
                print_row(name, exporter, *[""] * 5, f"not done in {options.minutes} minutes")
                continue
            is_wrong |= done.returncode == 1
            if done.returncode not in (0, 1) or "Traceback" in done.stderr:
                is_wrong = True
                print_row(name, exporter, *[""] * 5, f"the trial: {last_line(done.stderr)}")
    return int(is_wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME",
                        help="architectures whose names begin so")
    parser.add_argument("--autopar", type=Path, help="the program (build/release/bin/autopar)",
                        default=HERE.parent / "build/release/bin/autopar")
    parser.add_argument("--out", type=Path, help="keep models there whose numbers are wrong")
    parser.add_argument("--keep", action="store_true", help="keep the others, too")
    parser.add_argument("--ranks", nargs="+", default=["1", "2", "3", "4", "2x2"], metavar="MESH")
    parser.add_argument("--device", nargs="+", default=["h200", "cpu"], metavar="DEVICE",
                        help="what plans are for; a run's memory is that of CPUs")
    parser.add_argument("--exporters", nargs="+", default=list(EXPORTERS), choices=EXPORTERS)
    parser.add_argument("--minutes", type=float, default=10, help="for a model and exporter")
    parser.add_argument("--list", action="store_true", help="print the architectures")
    parser.add_argument("--model", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print(*heldout.HELDOUT, sep="\n")
        return 0
    if not options.autopar.exists():
        parser.error(f"--autopar: there is no {options.autopar}")
    if options.model:
        return try_model(options)
    if options.out:
        return try_all(options)
    with tempfile.TemporaryDirectory() as folder:
        options.out = Path(folder)
        return try_all(options)


if __name__ == "__main__":
    sys.exit(main())
