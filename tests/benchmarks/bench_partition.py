"""How long partitioning takes beside copying the model's bytes, and how much private memory it needs.

Usage: bench_partition.py MODEL_DIR... [--ngpus 4] [--rounds 5] [--time-limit 10] [--shape NAME=1x128]...
Copy and partition take turns on the same disk; private memory is RssAnon, watched from outside, so
mapped files do not count. The search's own seconds are shown apart. The copy waits
as long as the search took before it starts: a virtual machine gives pages that were free for a few
seconds back to its host, and who writes next pays for their return; both sides shall.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import onnx
from onnx import numpy_helper

from measure import AUTOPAR, machine, median, timed


def shapes_of(folder):
    words = []
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        proto = onnx.TensorProto.FromString(path.read_bytes())
        shape = numpy_helper.to_array(proto).shape
        words += ["--shape", f"{proto.name}={'x'.join(map(str, shape))}"]
    return words


def bench(folder, ngpus, rounds, time_limit, more):
    files = [path for path in folder.iterdir() if path.is_file() and path.name.startswith("model")]
    size = sum(path.stat().st_size for path in files)
    copies, partitions, searches, memory = [], [], [], []
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        for _ in range(rounds):
            copy, out = Path(tmp) / "copy", Path(tmp) / "out"
            copy.mkdir()
            time.sleep(searches[-1] if searches else time_limit)
            copies.append(timed(["cp", *files, copy])[0])
            shutil.rmtree(copy)
            seconds, private = timed(
                [AUTOPAR, "partition", folder / "model.onnx", *shapes_of(folder), *more,
                 "--ngpus", ngpus, "--time-limit", time_limit, "--out", out]
            )
            plan = json.loads((out / "plan.json").read_text())
            shutil.rmtree(out)
            partitions.append(seconds)
            searches.append(plan["summary"]["search_seconds"])
            memory.append(private)
    rest = [p - s for p, s in zip(partitions, searches)]
    ratio = median(r / c for r, c in zip(rest, copies))
    print(
        f"| {folder.name} | {size / 1e6:.0f} | {median(copies):.2f} | {median(partitions):.2f} "
        f"| {median(searches):.2f} | {ratio:.2f} | {max(memory) / 1e6:.0f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ngpus", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--shape", action="append", default=[])
    options = parser.parse_args()
    more = [word for shape in options.shape for word in ("--shape", shape)]
    print(f"{machine()}; --ngpus {options.ngpus} --time-limit {options.time_limit}\n")
    print("| model | MB | copy, s | partition, s | of it search, s | (partition - search) / copy "
          "| private memory, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        bench(folder, options.ngpus, options.rounds, options.time_limit, more)


if __name__ == "__main__":
    main()
