"""Pipeline stages against one: a batch in microbatches through stages of one thread each.

Usage: bench_stages.py MODEL_DIR... [--stages 2] [--microbatches 8] [--rows 1] [--rounds 5]
                              [--repeat 3]
A MODEL_DIR is one that models/export.py --full makes. A microbatch has so many rows. Compared, in
turn, are one rank of one thread with the whole batch at once, one rank that takes the microbatches
one after the other, and the stages. A ratio above 1 means that the stages are faster.
With S stages it cannot be above S * B / (B + S - 1), less what cores lose when all are at work: the
limit is that number times the time of one rank with the microbatches alone over its time with as
many others, that have nothing to do with each other, beside it.
"""

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx

from measure import autopar, machine, median, run_json


def shapes(folder, batch):
    words = []
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        proto = onnx.TensorProto.FromString(path.read_bytes())
        words += ["--shape", f"{proto.name}={'x'.join(map(str, [batch, *proto.dims[1:]]))}"]
    return words


def bench(folder, options):
    plans = {
        "whole": (1, 1, 1),
        "microbatches": (1, 1, options.microbatches),
        "stages": (options.stages, options.stages, options.microbatches),
    }
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        for name, (ranks, stages, microbatches) in plans.items():
            device = ["--device", options.device] if options.device else ["--device", "cpu"]
            autopar("partition", folder / "model.onnx", *shapes(folder, options.rows * options.microbatches),
                    "--ngpus", ranks, "--stages", stages, "--microbatches", microbatches,
                    *device, "--out", Path(tmp) / name)  # fmt: skip

        def run(name):
            return run_json("run", "--dir", Path(tmp) / name, "--random-inputs", 1, "--threads", 1,
                            "--repeat", options.repeat, "--json")["seconds"]  # fmt: skip

        seconds = {name: [] for name in plans}
        beside = []
        for _ in range(options.rounds):
            for name in plans:
                seconds[name].append(run(name))
            with ThreadPoolExecutor(options.stages) as pool:
                at_once = pool.map(run, ["microbatches"] * options.stages)
                beside.append(sum(at_once) / options.stages)
    stages = seconds["stages"]
    ratios = {
        name: median(one / staged for one, staged in zip(seconds[name], stages))
        for name in ("whole", "microbatches")
    }
    slots = options.stages * options.microbatches / (options.microbatches + options.stages - 1)
    limit = slots * median(alone / other for alone, other in zip(seconds["microbatches"], beside))
    print(
        f"| {folder.name} | {median(seconds['whole']):.3f} | {median(seconds['microbatches']):.3f} "
        f"| {median(beside):.3f} | {median(stages):.3f} ({min(stages):.3f}) "
        f"| {ratios['whole']:.2f} | {ratios['microbatches']:.2f} | {limit:.2f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1, help="rows of the batch in a microbatch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", help="a device file, that of autopar calibrate say")
    options = parser.parse_args()
    print(f"{machine()}; {options.stages} stages of one thread, {options.microbatches} "
          f"microbatches of {options.rows} rows\n")
    print("| model | one rank, s | in microbatches, s | that beside others, s | stages, s (least) "
          "| stages faster than one rank | than in microbatches | limit |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        bench(folder, options)


if __name__ == "__main__":
    main()
