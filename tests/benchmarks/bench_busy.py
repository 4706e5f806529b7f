"""A busy machine: how much longer runs take while other processes work, beside ONNX Runtime.

Usage: bench_busy.py MODEL_DIR... [--threads 2] [--burners 2] [--rounds 3] [--repeat 20]
A MODEL_DIR is one that models/export.py makes. Each round takes the mean time of a run of each
program, first alone and then beside so many processes that never wait. A program's slow-down is its
busy time over its quiet one, so that one that is slow alone gains nothing by it; the last column,
autopar's slow-down over ONNX Runtime's (with its own default settings), is above 1 where autopar
suffers more. Compared are one rank of so many threads, as many ranks of one thread in one process,
and these under mpirun.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import onnxruntime

from bench_run import Model, load_inputs, onnxruntime_session, run_in_place
from measure import AUTOPAR, machine, median

BURN = "while True: pass"


@contextmanager
def burners(count):
    started = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    time.sleep(0.5)  # until all of them burn
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def output_of(command):
    words = list(map(str, command))
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def onnxruntime_seconds(folder, options):
    """In a process of its own, so that none of its threads is left beside what comes next."""
    return output_of([sys.executable, __file__, "--of-onnxruntime", folder,
                      "--threads", options.threads, "--repeat", options.repeat])


def print_onnxruntime_seconds(folder, options):
    arrays = {name: array for name, (_, array) in load_inputs(folder).items()}
    session = onnxruntime_session(folder / "model.onnx", options.threads)
    run = run_in_place(session, arrays)
    start = time.perf_counter()
    for _ in range(options.repeat):
        run()
    print((time.perf_counter() - start) / options.repeat)


def programs(folder, options, work):
    """By name, what answers with the mean seconds of a run."""
    model = Model(folder, (1, options.threads), work)

    def mean_of(*launcher, ranks, threads):
        words = model.run_words(ranks, threads, options.repeat)
        return lambda: output_of([*launcher, AUTOPAR, *words])["mean_seconds"]

    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = ["mpirun", *root, "--oversubscribe", "-np", options.threads]
    return {
        "onnxruntime": lambda: onnxruntime_seconds(folder, options),
        f"1 rank of {options.threads}": mean_of(ranks=1, threads=options.threads),
        f"{options.threads} ranks of 1": mean_of(ranks=options.threads, threads=1),
        "mpirun": mean_of(*mpirun, ranks=options.threads, threads=1),
    }


def bench(folder, options):
    quiet, busy = {}, {}
    with tempfile.TemporaryDirectory() as work:
        compared = programs(folder, options, Path(work))
        for _ in range(options.rounds):
            for name, seconds in compared.items():
                quiet.setdefault(name, []).append(seconds())
                with burners(options.burners):
                    busy.setdefault(name, []).append(seconds())
    slow_down = {name: median(busy[name]) / median(quiet[name]) for name in compared}
    for name in compared:
        row = [folder.name, name, f"{median(quiet[name]) * 1e3:.2f}",
               f"{median(busy[name]) * 1e3:.2f}", f"{slow_down[name]:.2f}",
               f"{slow_down[name] / slow_down['onnxruntime']:.2f}"]
        print(f"| {' | '.join(row)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--burners", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--of-onnxruntime", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of_onnxruntime:
        print_onnxruntime_seconds(options.of_onnxruntime, options)
        return
    print(f"{machine()}; {options.burners} burners, onnxruntime {onnxruntime.__version__}\n")
    columns = ["model", "program", "quiet, ms", "busy, ms", "slow-down", "over ONNX Runtime's"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for folder in options.models:
        bench(folder, options)


if __name__ == "__main__":
    main()
