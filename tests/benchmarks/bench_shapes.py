"""What the first request of a shape costs beside later ones, on one session of a bundle.

Usage: bench_shapes.py MODEL.onnx --inputs input_ids=BATCHxSEQUENCE [...] --sequences 37,64,200
    [--ngpus 2] [--repeat 5]
Each input is named with its shape, in which the word SEQUENCE stands for what --sequences lists and
all else is a number; it is filled with ones. The bundle is made with nothing said of shapes; its
ranks run in one process, and requests go over standard input as files. Columns: the first request's
seconds, the median of later ones, the difference, the same difference in processor time, which other
programs at work disturb less, and the run alone as the session measures it.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from measure import AUTOPAR, autopar, machine


def processor_seconds(process):
    """Of all its threads so far, those that have ended too."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(process, request):
    """Seconds until the answer, of the processor, and of the run alone."""
    before = processor_seconds(process)
    start = time.perf_counter()
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if "error" in answer:
        raise SystemExit(answer["error"])
    seconds = time.perf_counter() - start
    return seconds, processor_seconds(process) - before, answer["seconds"]


def request_of(ports, sequence, folder, number):
    inputs = {}
    for name, shape in ports:
        extents = [sequence if part == "SEQUENCE" else int(part) for part in shape.split("x")]
        file = folder / f"{number}-{len(inputs)}.npy"
        np.save(file, np.ones(extents, np.int64))
        inputs[name] = str(file)
    return {"id": number, "inputs": inputs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--inputs", nargs="+", required=True)
    parser.add_argument("--sequences", default="37,64,200")
    parser.add_argument("--ngpus", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    ports = [port.split("=") for port in arguments.inputs]
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = folder / "bundle"
        autopar("partition", arguments.model, "--ngpus", arguments.ngpus, "--device", "cpu",
                "--out", bundle)  # fmt: skip
        command = [AUTOPAR, "run", "--dir", bundle, "--requests", "-", "--output-dir", folder / "out"]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        print("| sequence | first | later | difference | in processor time | run alone |\n"
              "| --- | --- | --- | --- | --- | --- |")  # fmt: skip
        for number, sequence in enumerate(map(int, arguments.sequences.split(","))):
            request = request_of(ports, sequence, folder, number)
            times = []
            for repeat in range(arguments.repeat + 1):
                times.append(ask(process, {**request, "outputs": f"{number}-{repeat}"}))
            later, processor, alone = (statistics.median(column) for column in zip(*times[1:]))
            first = times[0]
            print(f"| {sequence} | {first[0]:.3f} s | {later:.3f} s | {first[0] - later:.3f} s "
                  f"| {first[1] - processor:.2f} s | {alone:.3f} s |", flush=True)  # fmt: skip
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
