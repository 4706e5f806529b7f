"""The search's plan beside Megatron's, priced by the same cost model, on full-size models.

Usage: bench_expert.py MODEL_DIR... [--ngpus 4] [--time-limit 60]
The limits are `fair` and a size of 0.45 times what the whole model needs on one device.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench_partition import shapes_of
from measure import SOURCE, machine, run_json

sys.path.append(str(SOURCE / "tests/e2e"))
from megatron import megatron_pins  # noqa: E402


def bench(folder, ngpus, time_limit):
    def plan(memory, *more):
        return run_json("plan", folder / "model.onnx", *shapes_of(folder), "--ngpus", ngpus, "--memory",
                        memory, "--time-limit", time_limit, "--json", *more)

    limit = None
    for memory in ("fair", "0.45"):
        best = plan(memory if memory == "fair" else limit)
        limit = int(0.45 * best["summary"]["one_device_bytes"])
        pins, rows = megatron_pins(folder / "model.onnx", best)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"operators": pins}, file)
            file.flush()
            megatron = plan("device", "--strategy", file.name)
        ours, theirs = (each["summary"]["cost_seconds"] for each in (best, megatron))
        bound = best["summary"]["lower_bound_seconds"]
        print(f"| {folder.name} | {memory} | {ours * 1e3:.4f} | {theirs * 1e3:.4f} | {ours / theirs:.3f} "
              f"| {100 * (ours / bound - 1):.2f} % | {best['summary']['search_seconds']:.1f} | {rows} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ngpus", type=int, default=4)
    parser.add_argument("--time-limit", type=float, default=60)
    options = parser.parse_args()
    print(f"{machine()}; --ngpus {options.ngpus} --time-limit {options.time_limit}\n")
    print("| model | memory | plan, ms | Megatron, ms | ratio | gap | search, s | all-reduces in Megatron |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        bench(folder, options.ngpus, options.time_limit)


if __name__ == "__main__":
    main()
