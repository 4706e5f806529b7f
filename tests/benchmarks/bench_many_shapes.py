"""Requests of many shapes on one session: nothing lost, each equal to ONNX Runtime, memory flat.

Usage: bench_many_shapes.py MODEL.onnx [--requests 10000] [--shapes 200] [--ngpus 2]
    [--shape-cache 256KiB] [--most-batch 4] [--most-sequence 60]
The model's inputs have symbols of which one has "batch" in its name; all others get the sequence's
extent. Inputs are tokens and masks. Shapes are drawn once, and each request draws one of them.
"""

import argparse
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from measure import AUTOPAR, autopar, machine


def drawn(name, shape, source):
    if "mask" in name:
        return np.ones(shape, np.int64)
    if "token_type" in name:
        return np.zeros(shape, np.int64)
    return source.integers(0, 60, shape)


def inputs_of(ports, batch, sequence, source):
    shapes = {
        port.name: [
            dim if isinstance(dim, int) else batch if "batch" in dim else sequence
            for dim in port.shape
        ]
        for port in ports
    }
    return {name: drawn(name, shape, source) for name, shape in shapes.items()}


def resident_mib(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def error_of(answer, expected):
    worst = 0.0
    for name, value in expected.items():
        made = np.array(answer["outputs"][name], value.dtype)
        if made.shape != value.shape:
            raise SystemExit(f"{name} is {made.shape}, not {value.shape}")
        worst = max(worst, float(np.max(np.abs(made - value)) / np.max(np.abs(value))))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--ngpus", type=int, default=2)
    parser.add_argument("--shape-cache", default="256KiB")
    parser.add_argument("--most-batch", type=int, default=4)
    parser.add_argument("--most-sequence", type=int, default=60)
    arguments = parser.parse_args()
    session = onnxruntime.InferenceSession(arguments.model)
    names = [output.name for output in session.get_outputs()]
    choice, source = random.Random(1), np.random.default_rng(1)
    every = [(b, s) for b in range(1, arguments.most_batch + 1)
             for s in range(1, arguments.most_sequence + 1)]  # fmt: skip
    shapes = choice.sample(every, arguments.shapes)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        bundle = Path(name) / "bundle"
        autopar("partition", arguments.model, "--ngpus", arguments.ngpus, "--out", bundle)
        command = [AUTOPAR, "run", "--dir", bundle, "--requests", "-",
                   "--shape-cache", arguments.shape_cache]  # fmt: skip
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        worst = 0.0
        for number in range(arguments.requests):
            feeds = inputs_of(session.get_inputs(), *choice.choice(shapes), source)
            request = {"id": number, "inputs": {key: v.tolist() for key, v in feeds.items()}}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if answer["id"] != number or "error" in answer:
                raise SystemExit(f"request {number}: {answer}")
            worst = max(worst, error_of(answer, dict(zip(names, session.run(None, feeds)))))
            if (number + 1) % max(1, arguments.requests // 10) == 0:
                print(f"{number + 1:>6} requests: {resident_mib(process):.1f} MiB resident, "
                      f"largest error {worst:.2g}", flush=True)  # fmt: skip
        process.stdin.close()
        if process.wait() != 0:
            raise SystemExit("the session ended in an error")


if __name__ == "__main__":
    main()
