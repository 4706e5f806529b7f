"""A served bundle of one rank beside ONNX Runtime in a Python loop, on the same threads.

Usage: bench_serve.py MODEL_DIR... [--threads 2] [--rounds 5] [--requests 20] [--clients 1]
A MODEL_DIR is one that models/export.py makes. Rounds alternate between the two; a ratio above 1 means
that autopar answers more requests a second, or that its 99th percentile is shorter. ONNX Runtime is
called in the process that has the tensors; autopar gets them over HTTP, in binary, by tritonclient,
and the last column has the session's runs alone (`run --json --repeat`).
"""

import argparse
import math
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import tritonclient.http as triton
from tritonclient.utils import np_to_triton_dtype

from bench_run import load_inputs, onnxruntime_session
from measure import AUTOPAR, autopar, machine, run_json


def percentile(seconds, share):
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


class Server:
    """A bundle at a port of its own."""

    def __init__(self, bundle, threads):
        command = [AUTOPAR, "serve", "--dir", bundle, "--listen", "127.0.0.1:0", "--threads", threads]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        self.place = re.search(r"127[\d.]+:\d+", self.process.stderr.readline())[0]
        with triton.InferenceServerClient(self.place) as client:
            while not client.is_server_ready():
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        self.process.communicate()


def inputs_of(tensors):
    inputs = []
    for name, tensor in tensors.items():
        inputs.append(triton.InferInput(name, tensor.shape, np_to_triton_dtype(tensor.dtype)))
        inputs[-1].set_data_from_numpy(tensor)
    return inputs


def latencies(call, count):
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def latencies_in_a_loop(call, count):
    """Seconds of each call, and of all of them."""
    start = time.perf_counter()
    return latencies(call, count), time.perf_counter() - start


def latencies_of_clients(server, model, tensors, clients, count):
    """The same of so many requests of each client, all clients at once."""
    seconds, failures = [], []

    def ask():
        try:
            with triton.InferenceServerClient(server.place) as client:
                inputs = inputs_of(tensors)
                seconds.extend(latencies(lambda: client.infer(model, inputs), count))
        except Exception as failure:  # which a thread would keep to itself
            failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return seconds, time.perf_counter() - start


class Measured:
    def __init__(self):
        self.seconds, self.total = [], 0.0

    def add(self, seconds, total):
        self.seconds += seconds
        self.total += total

    @property
    def rate(self):
        return len(self.seconds) / self.total

    @property
    def p99(self):
        return percentile(self.seconds, 0.99)


def compare(folder, options, place):
    tensors = {name: tensor for name, (_, tensor) in load_inputs(folder).items()}
    files = [f"{name}={path}" for name, (path, _) in load_inputs(folder).items()]
    bundle = place / folder.name
    shapes = [f"{name}={'x'.join(map(str, tensor.shape))}" for name, tensor in tensors.items()]
    autopar("partition", folder / "model.onnx", "--ngpus", 1, "--out", bundle,
            *(part for shape in shapes for part in ("--shape", shape)))
    session = onnxruntime_session(folder / "model.onnx", options.threads)
    theirs, ours, runs = Measured(), Measured(), []
    with Server(bundle, options.threads) as server:
        latencies_of_clients(server, folder.name, tensors, 1, 2)
        session.run(None, tensors)
        for _ in range(options.rounds):
            theirs.add(*latencies_in_a_loop(lambda: session.run(None, tensors),
                                            options.requests * options.clients))
            ours.add(*latencies_of_clients(server, folder.name, tensors, options.clients,
                                           options.requests))
    for _ in range(options.rounds):
        told = run_json("run", "--dir", bundle, "--threads", options.threads, "--repeat",
                        options.requests, "--json",
                        *(part for file in files for part in ("--input", file)))
        runs.append(told["seconds"])
    print(f"| {folder.name} | {theirs.rate:.1f} | {ours.rate:.1f} | {ours.rate / theirs.rate:.2f} | "
          f"{theirs.p99 * 1e3:.1f} | {ours.p99 * 1e3:.1f} | {theirs.p99 / ours.p99:.2f} | "
          f"{percentile(theirs.seconds, 0.5) / percentile(runs, 0.5):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20, help="of a client, in a round")
    parser.add_argument("--clients", type=int, default=1, help="that ask at the same time")
    options = parser.parse_args()
    print(f"{machine()}; {options.threads} threads, {options.clients} clients\n")
    print("| model | ONNX Runtime's requests/s | served | ratio | its p99 ms | served | ratio | "
          "median of a run, ratio |\n" + "| --- " * 8 + "|")
    with tempfile.TemporaryDirectory() as place:
        for folder in options.folders:
            compare(folder.resolve(), options, Path(place))


if __name__ == "__main__":
    main()
