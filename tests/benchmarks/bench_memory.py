"""Predicted over measured memory of models' bundles: weights and all else, and all else alone.

Usage: bench_memory.py MODEL_DIR... [--meshes 1 2 3 4 2x2] [--device cpu] [--run-on cpu] [--search ilp] [--time-limit 5]
A row a model: the least and the largest quotient over meshes and ranks (under 1: the prediction
does not hold), and the mesh of the largest; kernels' scratch memory is in neither number. What a
folder has of inputs in test_data_set_0 gives the shapes.
"""

import argparse
import json
import subprocess
import tempfile
from math import prod
from pathlib import Path

from bench_partition import shapes_of
from measure import AUTOPAR, autopar, machine, run_json


def quotients(folder, mesh, options, more):
    """(of weights and all else, of all else) by rank."""
    with tempfile.TemporaryDirectory() as tmp:
        out = Path(tmp) / "bundle"
        autopar("partition", folder / "model.onnx", *shapes_of(folder), *more,
                "--ngpus", prod(map(int, mesh.split("x"))), "--mesh", mesh, "--out", out,
                "--device", options.device, "--search", options.search,
                "--time-limit", options.time_limit)
        ranks = json.loads((out / "meta-info.json").read_text())["ranks"]
        inputs = []
        for name, file in inputs_of(folder):
            inputs += ["--input", f"{name}={file}"]
        measured = run_json("run", "--dir", out, "--device", options.run_on,
                            *(inputs or ["--random-inputs", 1]), "--json")["peak_bytes"]
    result = []
    for rank, peak in zip(ranks, measured, strict=True):
        weights = rank["weight_bytes"]
        result.append((rank["peak_bytes"] / peak,
                       (rank["peak_bytes"] - weights) / max(1, peak - weights)))
    return result


def inputs_of(folder):
    import onnx

    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        yield onnx.TensorProto.FromString(path.read_bytes()).name, path


def row(folder, options, more):
    by_mesh = {}
    for mesh in options.meshes:
        try:
            by_mesh[mesh] = quotients(folder, mesh, options, more)
        except subprocess.CalledProcessError as error:
            print(f"| {folder.name} | mesh {mesh}: {error.stderr.strip().splitlines()[-1]} |")
    if not by_mesh:
        return
    everything = [quotient for ranks in by_mesh.values() for quotient in ranks]
    cells = []
    for part in (0, 1):
        least, most = (f(q[part] for q in everything) for f in (min, max))
        worst = max(by_mesh, key=lambda mesh: max(q[part] for q in by_mesh[mesh]))
        cells.append(f"{least:.3f} to {most:.3f} ({worst})")
    print(f"| {folder.name} | {cells[0]} | {cells[1]} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--meshes", nargs="+", default=["1", "2", "3", "4", "2x2"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run-on", default="cpu")
    parser.add_argument("--search", default="ilp")
    parser.add_argument("--time-limit", type=float, default=5)
    options, more = parser.parse_known_args()
    print(f"{machine()}, {AUTOPAR}")
    print("| model | weights, arena | arena alone |\n|---|---|---|")
    for folder in options.models:
        row(folder, options, more)


if __name__ == "__main__":
    main()
