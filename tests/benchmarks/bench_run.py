"""One rank against ONNX Runtime on the same threads, and two ranks of one thread against one of two.

Usage: bench_run.py MODEL_DIR... [--threads 2] [--rounds 5] [--repeat 10]
A MODEL_DIR is one that models/export.py --full makes. Rounds alternate between the programs; a
ratio above 1 means that autopar (or the two ranks) is faster.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from measure import autopar, machine, median, run_json


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


def time_session(session, inputs, repeat):
    session.run(None, inputs)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def bench(folder, threads, rounds, repeat):
    inputs = load_inputs(folder)
    model = folder / "model.onnx"
    shapes = [
        word
        for name, (_, array) in inputs.items()
        for word in ("--shape", f"{name}={'x'.join(map(str, array.shape))}")
    ]
    files = [
        word for name, (path, _) in inputs.items() for word in ("--input", f"{name}={path}")
    ]
    session = onnxruntime_session(model, threads)
    arrays = {name: array for name, (_, array) in inputs.items()}

    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        bundles = {}
        for ranks in (1, 2):
            bundles[ranks] = Path(tmp) / f"{ranks}"
            autopar("partition", model, *shapes, "--ngpus", ranks, "--time-limit", 10,
                    "--out", bundles[ranks])

        def run(ranks, threads_a_rank):
            return run_json(
                "run", "--dir", bundles[ranks], *files, "--repeat", repeat,
                "--threads", threads_a_rank, "--json",
            )["seconds"]

        whole, reference, two = [], [], []
        for _ in range(rounds):
            whole.append(run(1, threads))
            reference.append(time_session(session, arrays, repeat))
            two.append(run(2, 1))
    against = median(r / w for r, w in zip(reference, whole))
    scaling = median(w / t for w, t in zip(whole, two))
    print(
        f"| {folder.name} | {median(whole) * 1e3:.1f} | {median(reference) * 1e3:.1f} "
        f"| {against:.2f} | {median(two) * 1e3:.1f} | {scaling:.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    print(f"{machine()}; {options.threads} threads, onnxruntime {onnxruntime.__version__}, "
          f"numpy {np.__version__}\n")
    print("| model | one rank, ms | ONNX Runtime, ms | its time / ours | two ranks of one thread, ms "
          "| one rank's time / theirs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        bench(folder, options.threads, options.rounds, options.repeat)


if __name__ == "__main__":
    main()
