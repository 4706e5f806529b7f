"""Ranks of a bundle in ONNX Runtime, by libautopar_ort.so, against autopar's own runner.

Usage: bench_onnx_runtime_shards.py MODEL_DIR... [--ranks 2] [--rounds 5] [--repeat 10]
A MODEL_DIR is one that models/export.py makes, tiny or --full. The ranks of both are threads of one
process with a thread each. Rounds alternate between the two; a ratio above 1 means that autopar is
faster. The last column is ONNX Runtime's whole model with as many threads as there are ranks.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnxruntime

from bench_run import geometric_mean, load_inputs, onnxruntime_session, time_session
from measure import AUTOPAR, SOURCE, autopar, machine, median, run_json

os.environ.setdefault("AUTOPAR", str(AUTOPAR))
os.environ.setdefault("AUTOPAR_SOURCE", str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import onnx_runtime_shards as shards  # noqa: E402


class Ranks:
    """A bundle's sessions, a thread each."""

    def __init__(self, bundle, inputs):
        self.profile = json.loads((bundle / "meta-info.json").read_text())["profiles"][0]
        self.inputs = inputs
        self.sessions = [shards.open_rank(bundle, rank)
                         for rank in range(len(self.profile["peak_bytes"]))]

    def seconds(self, repeat):
        """Median of runs, which begin together since the first collective waits; of rank 0."""
        def run(rank):
            seconds = []
            for _ in range(repeat + 1):
                start = time.perf_counter()
                shards.run_rank(self.sessions[rank], rank, self.profile, self.inputs)
                seconds.append(time.perf_counter() - start)
            return median(seconds[1:])

        with ThreadPoolExecutor(len(self.sessions)) as pool:
            return list(pool.map(run, range(len(self.sessions))))[0]


def bench(folder, options):
    """Prints a row; answers with its ratio."""
    files = load_inputs(folder)
    arrays = {name: array for name, (_, array) in files.items()}
    shapes = [word for name, array in arrays.items()
              for word in ("--shape", f"{name}={'x'.join(map(str, array.shape))}")]
    inputs = [word for name, (path, _) in files.items() for word in ("--input", f"{name}={path}")]
    with tempfile.TemporaryDirectory() as work:
        bundle = Path(work) / "bundle"
        autopar("partition", folder / "model.onnx", *shapes, "--ngpus", options.ranks,
                "--device", "cpu", "--time-limit", 10, "--out", bundle)
        ranks = Ranks(bundle, arrays)
        whole = onnxruntime_session(folder / "model.onnx", options.ranks)
        ours, theirs, wholes = [], [], []
        for _ in range(options.rounds):
            ours.append(run_json("run", "--dir", bundle, *inputs, "--repeat", options.repeat,
                                 "--threads", 1, "--json")["seconds"])
            theirs.append(ranks.seconds(options.repeat))
            wholes.append(time_session(whole, arrays, options.repeat))
    faster = median(t / o for t, o in zip(theirs, ours, strict=True))
    print(f"| {folder.name} | {median(ours) * 1e3:.2f} | {median(theirs) * 1e3:.2f} | {faster:.2f} | "
          f"{median(wholes) * 1e3:.2f} |", flush=True)
    return faster


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    print(f"{machine()}; {options.ranks} ranks of one thread, onnxruntime {onnxruntime.__version__}\n")
    print("| model | autopar, ms | ranks in ONNX Runtime, ms | their time / ours | "
          "whole model in ONNX Runtime, ms |\n|" + " --- |" * 5)
    ratios = [bench(folder, options) for folder in options.models]
    print(f"\nGeometric mean over {len(ratios)} models: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
