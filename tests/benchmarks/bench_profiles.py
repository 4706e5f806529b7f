"""Several profiles planned together, against the best layout of each profile by itself imposed on all.

Usage: bench_profiles.py MODEL.onnx --shape sequence=1,512 [--shape ...] [--weights 64,1] [--ngpus 8]
       [--memory fair] [--device h200] [--time-limit 60]

Prints the joint search (seconds of the process and of the search, cost, bound, proven) and, for each profile,
what all take together where weights lie as that profile's own best plan has them.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from measure import AUTOPAR, machine


def values_of(text):
    return text.rpartition("=")[2].split(",")


def plan(options, shapes, *more):
    command = [AUTOPAR, "plan", options.model, "--ngpus", options.ngpus, "--memory", options.memory, "--device",
               options.device, "--time-limit", options.time_limit, "--json", *more]
    for shape in shapes:
        command += ["--shape", shape]
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout), time.perf_counter() - start


def shapes_of(options, profile):
    """The options of one profile by itself."""
    shapes = []
    for text in options.shape:
        values = values_of(text)
        shapes.append(f"{text.rpartition('=')[0]}={values[profile if len(values) > 1 else 0]}")
    return shapes


def layout(joint, alone):
    """Pins for the weights: what has an entry for all profiles."""
    weights = {entry["name"] for entry in joint["operators"] if "profile" not in entry}
    return {"operators": [entry for entry in alone["operators"]
                          if "inputs" not in entry and entry["name"] in weights]}  # fmt: skip


def told(summary):
    proven = "proven" if summary["proven_optimal"] else f"bound {summary['lower_bound_seconds'] * 1e3:.6f} ms"
    return f"{summary['cost_seconds'] * 1e3:.6f} ms by weight, {proven}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--shape", action="append", required=True)
    parser.add_argument("--weights")
    parser.add_argument("--ngpus", type=int, default=8)
    parser.add_argument("--memory", default="fair")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--time-limit", type=float, default=60)
    options = parser.parse_args()
    weights = ["--profile-weights", options.weights] if options.weights else []
    print(machine())
    joint, seconds = plan(options, options.shape, *weights)
    summary = joint["summary"]
    print(f"together: {told(summary)}; {seconds:.2f} s, of it search {summary['search_seconds']:.2f} s")
    for number, profile in enumerate(joint["profiles"]):
        alone, _ = plan(options, shapes_of(options, number))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as pins:
            json.dump(layout(joint, alone), pins)
            pins.flush()
            imposed, _ = plan(options, options.shape, *weights, "--strategy", pins.name)
        more = imposed["summary"]["cost_seconds"] / summary["cost_seconds"] - 1
        print(f"weights as {profile['profile']} alone wants them: {told(imposed['summary'])}, {more:+.3%}")


if __name__ == "__main__":
    main()
