"""The search on large models: seconds, cost, and what is proven.

Usage: bench_plan.py MODEL_DIR... [--mesh 8 8x8] [--memory none least] [--time-limit 60] [--rounds 1]
       bench_plan.py --series MODEL_DIR-LAYERS... [--mesh 8] [--memory none]

Models are those of models/export_large.py. The limit `none` never binds; `least` is 1.1 times the least
feasible, which the refusal of a limit of one byte names. Seconds are the whole process's, from file to
plan, the median of the rounds; a process that outlasts its time limit tenfold is ended.
"""

import argparse
import json
import math
import re
import subprocess
import time
from pathlib import Path

from measure import AUTOPAR, machine, median

NEVER_BINDING = "1000000GiB"
SLACK = 1.1  # the limit `least`, over the least feasible


class NoPlan(Exception):
    """One line about why there is no plan."""


def plan(folder, mesh, memory, options):
    """What `autopar plan --json` sums up, and the seconds of the whole process."""
    devices = math.prod(map(int, mesh.split("x")))
    command = [AUTOPAR, "plan", folder / "model.onnx", "--shape", options.shape, "--ngpus", devices, "--mesh",
               mesh, "--memory", memory, "--time-limit", options.time_limit, "--json"]
    start = time.perf_counter()
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              timeout=10 * options.time_limit)
    except subprocess.TimeoutExpired:
        raise NoPlan(f"ended after {10 * options.time_limit:.0f} s") from None
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise NoPlan(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["summary"], seconds


def least_feasible_bytes(folder, mesh, options):
    """As autopar says when it is asked for too little."""
    try:
        plan(folder, mesh, "1B", options)
    except NoPlan as refusal:
        named = re.search(r"the smallest known to do is .*?\((\d+) bytes\)", str(refusal))
        if named:
            return int(named.group(1))
        raise NoPlan(f"no least feasible limit: {refusal}") from None
    raise NoPlan("a plan within one byte")


def limit(folder, mesh, memory, options):
    if memory == "none":
        return NEVER_BINDING
    if memory == "least":
        return f"{int(SLACK * least_feasible_bytes(folder, mesh, options))}B"
    return memory


def measure(folder, mesh, memory, options):
    """The summary of a row, with the medians of its seconds and the limit in bytes."""
    bytes_allowed = limit(folder, mesh, memory, options)
    rounds = [plan(folder, mesh, bytes_allowed, options) for _ in range(options.rounds)]
    summary = rounds[-1][0]
    summary["process_seconds"] = median([seconds for _, seconds in rounds])
    summary["search_seconds"] = median([each["search_seconds"] for each, _ in rounds])
    return summary


def gap(summary):
    bound = summary["lower_bound_seconds"]
    return f"{100 * (summary['cost_seconds'] / bound - 1):.3f} %" if bound > 0 else "no bound"


def row(folder, mesh, memory, options):
    first = [layers_of(folder) if options.series else folder.name, mesh, memory]
    try:
        summary = measure(folder, mesh, memory, options)
    except NoPlan as reason:
        return [*first, str(reason)]
    whole, search = summary["process_seconds"], summary["search_seconds"]
    if options.series:
        first.append(f"{whole / layers_of(folder) * 1e3:.2f}")
    return [*first, f"{whole:.2f}", f"{search:.2f}", f"{summary['peak_bytes'] / 2**30:.2f}",
            f"{summary['cost_seconds'] * 1e3:.4f}", f"{summary['lower_bound_seconds'] * 1e3:.4f}", gap(summary),
            "yes" if summary["proven_optimal"] else "no"]


def layers_of(folder):
    return int(folder.name.rpartition("-")[2])


def print_row(cells):
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--series", action="store_true", help="the models differ in layers alone")
    parser.add_argument("--mesh", nargs="+", default=["8", "8x8"])
    parser.add_argument("--memory", nargs="+", default=["none", "least"], help="or what --memory takes")
    parser.add_argument("--shape", default="input_ids=1x2048")
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print(f"{machine()}; --shape {options.shape} --time-limit {options.time_limit:g}\n")
    first = ["layers", "mesh", "limit", "ms a layer"] if options.series else ["model", "mesh", "limit"]
    header = [*first, "seconds", "of it search", "peak, GiB", "cost, ms", "bound, ms", "gap", "proven"]
    print_row(header)
    print_row(["---"] * len(header))
    for mesh in options.mesh:
        for memory in options.memory:
            for folder in options.models:
                print_row(row(folder, mesh, memory, options))


if __name__ == "__main__":
    main()
