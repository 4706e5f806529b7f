"""The whole hierarchical plan of large models: stages, submeshes and strategies.

Usage: bench_stage_plans.py MODEL_DIR... [--ngpus 64 1024] [--device h100-cluster]
                            [--microbatches 8] [--sequence 2048] [--time-limit 60]
A MODEL_DIR is one that models/export_large.py makes (structure alone). Seconds are the whole
process's, from file to plan.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

from measure import AUTOPAR, machine


def plan(folder, ngpus, options):
    command = [
        AUTOPAR, "plan", folder / "model.onnx",
        "--shape", f"input_ids={options.microbatches}x{options.sequence}",
        "--ngpus", ngpus, "--device", options.device, "--stages", "auto",
        "--microbatches", options.microbatches, "--time-limit", options.time_limit, "--json",
    ]  # fmt: skip
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return time.perf_counter() - start, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ngpus", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--device", default="h100-cluster")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--time-limit", type=float, default=60)
    options = parser.parse_args()
    print(f"{machine()}; {options.device}, {options.microbatches} microbatches of one row of "
          f"{options.sequence} tokens, time limit {options.time_limit:g} s\n")
    print("| model | devices | seconds | of it search | stages | devices of a stage | a run, ms "
          "| bound, ms | gap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        for ngpus in options.ngpus:
            seconds, found = plan(folder, ngpus, options)
            summary = found["summary"]
            stages = found.get("stages", [{"mesh": found.get("mesh")}])
            sizes = []
            for stage in stages:
                size = 1
                for extent in stage["mesh"]:
                    size *= extent
                sizes.append(size)
            cost, bound = summary["cost_seconds"], summary["lower_bound_seconds"]
            print(f"| {folder.name} | {ngpus} | {seconds:.1f} | {summary['search_seconds']:.1f} "
                  f"| {len(stages)} | {min(sizes)} to {max(sizes)} | {cost * 1e3:.3f} "
                  f"| {bound * 1e3:.3f} | {cost / bound - 1:.2%} |", flush=True)


if __name__ == "__main__":
    main()
