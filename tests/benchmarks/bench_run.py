"""One rank against ONNX Runtime on the same threads: time and memory.

Usage: bench_run.py MODEL_DIR... [--threads 2] [--rounds 5] [--repeat 10] [--scaling]
A MODEL_DIR is one that models/export.py --full makes. Rounds alternate between the programs; a
ratio above 1 means that autopar is faster, or takes less memory. Memory is the largest resident set,
weights that are mapped included, less what the process takes without a model: of Python and its
packages before one is loaded, of `autopar --version`. Inputs and outputs stay where they are between
runs, on both sides.
--scaling adds two ranks of one thread against one rank of two. Plans are for the CPU preset.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from measure import AUTOPAR, autopar, machine, median, peak_resident, resident_peak_of, run_json


def load_inputs(folder):
    inputs = {}
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        proto = onnx.TensorProto.FromString(path.read_bytes())
        inputs[proto.name] = (path, numpy_helper.to_array(proto))
    return inputs


def onnxruntime_session(file, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def run_in_place(session, inputs):
    """A function that runs the session, whose inputs and outputs stay where they are: what
    `autopar run` times is a run without copies of either, too."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for port, array in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        binding.bind_ortvalue_output(port.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    return lambda: session.run_with_iobinding(binding)


def time_session(session, inputs, repeat):
    run = run_in_place(session, inputs)
    run()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def onnxruntime_memory(folder, threads):
    """Bytes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory-of-onnxruntime", folder, "--threads", str(threads)],
        check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def print_onnxruntime_memory(folder, threads):
    arrays = {name: array for name, (_, array) in load_inputs(folder).items()}
    before = resident_peak_of("self")
    session = onnxruntime_session(folder / "model.onnx", threads)
    for _ in range(2):
        session.run(None, arrays)
    print(resident_peak_of("self") - before)


class Model:
    """A model in a folder, split for so many ranks in folders within `work`."""

    def __init__(self, folder, ranks, work):
        self.folder, self.work = folder, work
        self.inputs = load_inputs(folder)
        self.arrays = {name: array for name, (_, array) in self.inputs.items()}
        shapes = [
            word
            for name, array in self.arrays.items()
            for word in ("--shape", f"{name}={'x'.join(map(str, array.shape))}")
        ]
        for count in ranks:
            autopar("partition", folder / "model.onnx", *shapes, "--ngpus", count,
                    "--device", "cpu", "--time-limit", 10, "--out", work / f"{count}")

    def run_words(self, ranks, threads, repeat, *more):
        files = [
            word
            for name, (path, _) in self.inputs.items()
            for word in ("--input", f"{name}={path}")
        ]
        return ["run", "--dir", self.work / f"{ranks}", *files, "--repeat", repeat,
                "--threads", threads, "--json", *more]

    def seconds(self, ranks, threads, repeat):
        return run_json(*self.run_words(ranks, threads, repeat))["seconds"]

    def memory(self, threads):
        without_model = max(peak_resident([AUTOPAR, "--version"]) for _ in range(5))
        return peak_resident([AUTOPAR, *self.run_words(1, threads, 2)]) - without_model

    def error(self, session, threads):
        """The largest difference from ONNX Runtime's outputs over their largest magnitude."""
        out = self.work / "outputs"
        autopar(*self.run_words(1, threads, 1, "--output-dir", out))
        worst = 0.0
        for port, expected in zip(session.get_outputs(), session.run(None, self.arrays)):
            safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in port.name)
            difference = np.abs(np.load(out / f"{safe}.npy") - expected).max()
            worst = max(worst, float(difference / np.abs(expected).max()))
        return worst


def bench(folder, options):
    """Prints a row; answers with its ratios of time and memory."""
    ranks = (1, 2) if options.scaling else (1,)
    threads, repeat = options.threads, options.repeat
    with tempfile.TemporaryDirectory(dir=folder) as work:
        model = Model(folder, ranks, Path(work))
        session = onnxruntime_session(folder / "model.onnx", threads)
        error = model.error(session, threads)
        memory, their_memory = model.memory(threads), onnxruntime_memory(folder, threads)
        ours, theirs, two = [], [], []
        for _ in range(options.rounds):
            ours.append(model.seconds(1, threads, repeat))
            theirs.append(time_session(session, model.arrays, repeat))
            if options.scaling:
                two.append(model.seconds(2, 1, repeat))
    faster = median(t / o for t, o in zip(theirs, ours))
    smaller = their_memory / memory
    row = [folder.name, f"{median(ours) * 1e3:.2f}", f"{median(theirs) * 1e3:.2f}", f"{faster:.2f}",
           f"{memory / 1e6:.0f}", f"{their_memory / 1e6:.0f}", f"{smaller:.2f}", f"{error:.0e}"]
    if options.scaling:
        row += [f"{median(two) * 1e3:.2f}", f"{median(o / t for o, t in zip(ours, two)):.2f}"]
    print(f"| {' | '.join(row)} |", flush=True)
    return faster, smaller


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--memory-of-onnxruntime", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of_onnxruntime:
        print_onnxruntime_memory(options.memory_of_onnxruntime, options.threads)
        return
    print(f"{machine()}; {options.threads} threads, onnxruntime {onnxruntime.__version__}, "
          f"numpy {np.__version__}\n")
    columns = ["model", "one rank, ms", "ONNX Runtime, ms", "its time / ours", "one rank, MB",
               "ONNX Runtime, MB", "its memory / ours", "error"]
    if options.scaling:
        columns += ["two ranks of one thread, ms", "one rank's time / theirs"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    ratios, failures = [], []
    for folder in options.models:
        try:
            ratios.append(bench(folder, options))
        except subprocess.CalledProcessError as error:
            failures.append(f"{folder.name}: {error.stderr.strip().splitlines()[-1]}")
    if ratios:
        faster, smaller = map(geometric_mean, zip(*ratios))
        print(f"\nGeometric means over {len(ratios)} models: time {faster:.2f}, memory {smaller:.2f}")
    for failure in failures:
        print(f"Not run: {failure}")


if __name__ == "__main__":
    main()
