"""A session of one rank beside ONNX Runtime in a Python loop, on the same threads.

Usage: bench_serve.py MODEL_DIR... [--bind SYMBOL=EXTENT...] [--threads 2] [--rounds 5] [--requests 20]
                      [--past ROWS] [--clients 1] [--max-batch N --max-delay TIME]
A MODEL_DIR is one that models/export.py makes; with --bind, inputs of these extents are drawn in place
of those that it has: masks of ones, types of tokens below 2, other integers below 100, normal floats.
Rounds alternate between three: ONNX Runtime, called in the process that has the tensors; `serve`,
which gets them over HTTP, in binary, by tritonclient; and the library's Session, called in the process
that has them (session_benchmark). A ratio above 1 means that autopar answers more requests a second,
or that its 99th percentile is shorter.
"""

import argparse
import json
import math
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import tritonclient.http as triton
from tritonclient.utils import np_to_triton_dtype

from bench_run import load_inputs, onnxruntime_session
from measure import AUTOPAR, autopar, machine


SESSION = Path(os.environ.get("SESSION_BENCHMARK", Path(AUTOPAR).parent / "session_benchmark"))


def percentile(seconds, share):
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


class Server:
    """A bundle at a port of its own."""

    def __init__(self, bundle, threads, more=()):
        command = [AUTOPAR, "serve", "--dir", bundle, "--listen", "127.0.0.1:0", "--threads", threads,
                   *more]
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


class Session:
    """A bundle in a process of its own, which calls the library."""

    def __init__(self, bundle, threads, tensors, place, past=None):
        files = []
        if past is not None:
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("past")}
        for number, (name, tensor) in enumerate(tensors.items()):
            np.save(place / f"{number}.npy", np.ascontiguousarray(tensor))
            files.append(f"{name}={place}/{number}.npy")
        behind = [] if past is None else ["--past", str(past)]
        command = [str(SESSION), str(bundle), str(threads), *behind, *files]
        spins = {"GOMP_SPINCOUNT": "10000", **os.environ}  # as the program has it
        self.process = subprocess.Popen(command, env=spins, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def latencies(self, count):
        """Seconds of each run, and of all of them."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        seconds = json.loads(self.process.stdout.readline())
        return seconds, sum(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.communicate()


def extent_of(dim, binding):
    """Of a number, a symbol, or a sum of symbols."""
    if not dim.dim_param:
        return dim.dim_value
    return sum(binding[part] for part in dim.dim_param.split(" + "))


def drawn_inputs(file, binding):
    random = np.random.default_rng(1)
    graph = onnx.load(file, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    tensors = {}
    for port in graph.input:
        if port.name in weights:
            continue
        shape = [extent_of(dim, binding) for dim in port.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        if kind.kind == "f":
            tensors[port.name] = random.standard_normal(shape).astype(kind)
        elif "mask" in port.name:
            tensors[port.name] = np.ones(shape, kind)
        else:
            most = 2 if "type" in port.name else 100
            tensors[port.name] = random.integers(0, most, shape).astype(kind)
    return tensors


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
    if options.bind:
        binding = {name: int(extent) for name, extent in (each.split("=") for each in options.bind)}
        tensors = drawn_inputs(folder / "model.onnx", binding)
    bundle = place / folder.name
    shapes = [f"{name}={'x'.join(map(str, tensor.shape))}" for name, tensor in tensors.items()]
    autopar("partition", folder / "model.onnx", "--ngpus", 1, "--time-limit", 10, "--out", bundle,
            *(part for shape in shapes for part in ("--shape", shape)))
    session = onnxruntime_session(folder / "model.onnx", options.threads)
    theirs, served, called = Measured(), Measured(), Measured()
    joining = ["--max-batch", options.max_batch, "--max-delay", options.max_delay]
    with (Server(bundle, options.threads, joining if options.max_batch else ()) as server,
          Session(bundle, options.threads, tensors, place, options.past) as of_library):
        latencies_of_clients(server, folder.name, tensors, options.clients, 2)
        of_library.latencies(2)
        session.run(None, tensors)
        for _ in range(options.rounds):
            theirs.add(*latencies_in_a_loop(lambda: session.run(None, tensors),
                                            options.requests * options.clients))
            served.add(*latencies_of_clients(server, folder.name, tensors, options.clients,
                                             options.requests))
            called.add(*of_library.latencies(options.requests * options.clients))
    columns = [folder.name, f"{theirs.rate:.1f}"]
    columns += [text for ours in (served, called)
                for text in (f"{ours.rate:.1f}", f"{ours.rate / theirs.rate:.2f}")]
    columns += [f"{theirs.p99 * 1e3:.1f}"]
    columns += [text for ours in (served, called)
                for text in (f"{ours.p99 * 1e3:.1f}", f"{theirs.p99 / ours.p99:.2f}")]
    print("| " + " | ".join(columns) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20, help="of a client, in a round")
    parser.add_argument("--clients", type=int, default=1, help="that ask at the same time")
    parser.add_argument("--bind", nargs="+", metavar="SYMBOL=EXTENT")
    parser.add_argument("--past", type=int, metavar="ROWS",
                        help="the library's Session keeps the inputs that begin with 'past', of so many "
                        "rows, as states, and makes logits alone")
    parser.add_argument("--max-batch", type=int, help="of serve")
    parser.add_argument("--max-delay", default="0ms", help="of serve")
    options = parser.parse_args()
    print(f"{machine()}; {options.threads} threads, {options.clients} clients\n")
    print("| model | ONNX Runtime's requests/s | served | ratio | Session | ratio | "
          "its p99 ms | served | ratio | Session | ratio |\n" + "| --- " * 11 + "|")
    with tempfile.TemporaryDirectory() as place:
        for folder in options.folders:
            compare(folder.resolve(), options, Path(place))


if __name__ == "__main__":
    main()
