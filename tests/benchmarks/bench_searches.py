"""The quick searches' plans beside the exact search's, on models with their sample inputs.

Usage: bench_searches.py MODEL_DIR... [--meshes 4 2x2] [--time-limit 10]
"""

import argparse
import math
from pathlib import Path

from bench_partition import shapes_of
from measure import machine, run_json


def bench(folder, mesh, time_limit):
    def plan(*more):
        ngpus = math.prod(map(int, mesh.split("x")))
        return run_json("plan", folder / "model.onnx", *shapes_of(folder), "--ngpus", ngpus,
                        "--mesh", mesh, "--json", *more)["summary"]

    exact = plan("--time-limit", time_limit)
    ratio_to_bound = exact["cost_seconds"] / exact["lower_bound_seconds"]
    row = f"| {folder.name} | {mesh} | {exact['cost_seconds'] * 1e6:.1f} "
    row += "| proven " if exact["proven_optimal"] else f"| {ratio_to_bound:.3f} x bound "
    for search in ("recursive", "propagation"):
        quick = plan("--search", search)
        ratio = quick["cost_seconds"] / exact["cost_seconds"]
        row += f"| {ratio:.3f} | {quick['search_seconds']:.2f} "
    print(row + "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--meshes", nargs="+", default=["4", "2x2"])
    parser.add_argument("--time-limit", type=float, default=10)
    options = parser.parse_args()
    print(f"{machine()}; --time-limit {options.time_limit}\n")
    print("| model | mesh | exact, us | | recursive / exact | s | propagation / exact | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for folder in options.models:
        for mesh in options.meshes:
            bench(folder, mesh, options.time_limit)


if __name__ == "__main__":
    main()
