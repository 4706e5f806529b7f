"""The solver on instances of the contest's format, and its cost over time.

Usage: bench_assignment.py FOLDER|FILE.json.gz... [--time-limit 60] [--limits P=240 S=240] [--seed 1]

A folder stands for the instances in it. The rows go to standard output: when the first choice was found,
what it and the best one cost after a quarter and half of the time and in the end, the bound, and the
seconds of the whole process. Costs before the end are told by the log after each round of the search, of
its largest component; what the others cost, which is little, is added.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from measure import SOURCE, machine

BENCHMARK = Path(os.environ.get("AUTOPAR", SOURCE / "build/release/bin/autopar")).parent / "assignment_benchmark"
IMPOSSIBLE = 10**18
ROUND = re.compile(r"round \d+: bound (-?\d+), cost (\d+),")


def instances(paths):
    for path in paths:
        yield from sorted(path.glob("*.json.gz")) if path.is_dir() else [path]


def solve(path, limit, options):
    """What it prints, its seconds, and (seconds, bound, cost) after each round that had a choice."""
    command = [BENCHMARK, path, "--time-limit", limit, "--seed", options.seed, "--log"]
    rounds = []
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = ROUND.search(line)
        if found and int(found.group(2)) < IMPOSSIBLE:
            rounds.append((time.perf_counter() - start, int(found.group(1)), int(found.group(2))))
    text = process.stdout.read()
    process.wait()
    return json.loads(text) if text else None, time.perf_counter() - start, rounds


def cost_at(seconds, rounds, elsewhere):
    """The least cost that was known then."""
    known = [cost for at, _, cost in rounds if at <= seconds]
    return str(min(known) + elsewhere) if known else "-"


def row(path, limit, options):
    result, seconds, rounds = solve(path, limit, options)
    name = path.name.split(".")[0]
    if result is None or result["cost"] is None:
        bound = result["lower_bound"] if result else "-"
        return f"| {name} | {limit:g} | - | - | - | - | {bound} | - | {seconds:.1f} |"
    elsewhere = result["cost"] - min((cost for _, _, cost in rounds), default=result["cost"])
    first = f"{rounds[0][0]:.1f}" if rounds else "-"
    gap = 1 - result["lower_bound"] / result["cost"] if result["cost"] else 0
    return (f"| {name} | {limit:g} | {first} | {cost_at(limit / 4, rounds, elsewhere)} | "
            f"{cost_at(limit / 2, rounds, elsewhere)} | {result['cost']} | {result['lower_bound']} | "
            f"{100 * gap:.2f} % | {seconds:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--time-limit", type=float, default=60, help="seconds")
    parser.add_argument("--limits", nargs="*", default=[], metavar="NAME=S", help="seconds of an instance")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    limits = dict(pair.split("=") for pair in options.limits)
    print(f"{machine()}\n", file=sys.stderr)
    print("| instance | limit, s | first choice, s | cost at 1/4 | at 1/2 | at the end | lower bound | gap | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in instances(options.paths):
        limit = float(limits.get(path.name.split(".")[0], options.time_limit))
        print(row(path, limit, options), flush=True)


if __name__ == "__main__":
    main()
