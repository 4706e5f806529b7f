"""The search's plan beside the experts' and the quick searches', priced by the same cost model.

Usage: bench_quality.py MODEL_DIR... [--meshes 4 2x2] [--limits fair device 0.45 0.3] [--batch 4]
                                     [--time-limit 10]
A limit of 0.45 is that part of what the whole model needs on one device. An expert's plan is pinned
and completed by the search; `-` where it does not fit. Costs are microseconds.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import numpy_helper

from measure import SOURCE, machine, run_json

sys.path.append(str(SOURCE / "tests/e2e"))
from experts import expert_pins  # noqa: E402

QUICK = ("recursive", "propagation")
EXPERTS = ("Megatron", "Megatron and data parallel", "data parallel", "ZeRO", "replicated")


def shapes_of(folder, batch):
    words = []
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        proto = onnx.TensorProto.FromString(path.read_bytes())
        sizes = [batch, *numpy_helper.to_array(proto).shape[1:]]
        words += ["--shape", f"{proto.name}={'x'.join(map(str, sizes))}"]
    return words


class Bench:
    def __init__(self, folder, mesh, options):
        self.folder = folder
        self.mesh = mesh
        ngpus = math.prod(map(int, mesh.split("x")))
        self.words = [folder / "model.onnx", *shapes_of(folder, options.batch), "--ngpus", ngpus,
                      "--mesh", mesh, "--time-limit", options.time_limit, "--json"]
        plan = self.plan("device", "--search", "propagation")
        self.whole_bytes = plan["summary"]["one_device_bytes"]
        self.pins = expert_pins(folder / "model.onnx", plan)
        # pinned whole, weights would count as what cannot be split
        self.fair_experts = set(self.pins) - {"replicated", "data parallel"}

    def plan(self, memory, *more):
        return run_json("plan", *self.words, "--memory", memory, *more)

    def cost(self, memory, *more):
        try:
            return self.plan(memory, *more)["summary"]["cost_seconds"]
        except subprocess.CalledProcessError:
            return math.inf

    def expert(self, name, memory):
        if name not in self.pins or (memory == "fair" and name not in self.fair_experts):
            return math.inf
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"operators": self.pins[name]}, file)
            file.flush()
            return self.cost(memory, "--strategy", file.name)

    def row(self, limit):
        memory = limit if limit in ("fair", "device") else int(float(limit) * self.whole_bytes)
        start = f"| {self.folder.name} | {self.mesh} | {limit} |"
        try:
            best = self.plan(memory)["summary"]
        except subprocess.CalledProcessError:
            print(start, "nothing fits |", flush=True)
            return
        ours = best["cost_seconds"]
        others = [self.expert(name, memory) for name in EXPERTS]
        others += [self.cost(memory, "--search", search) for search in QUICK]
        gap = "proven" if best["proven_optimal"] else f"{100 * (ours / best['lower_bound_seconds'] - 1):.2f} %"
        cells = [f"{ours * 1e6:.2f}", gap, f"{best['search_seconds']:.1f}"]
        cells += ["-" if other == math.inf else f"{other * 1e6:.2f}" for other in others]
        cells.append("no" if ours <= min(others) else "**yes**")
        print(start, " | ".join(cells), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--meshes", nargs="+", default=["4", "2x2"])
    parser.add_argument("--limits", nargs="+", default=["fair", "device", "0.45", "0.3"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--time-limit", type=float, default=10)
    options = parser.parse_args()
    print(f"{machine()}; --batch {options.batch} --time-limit {options.time_limit}\n")
    head = ["model", "mesh", "memory", "ilp", "gap", "s", *EXPERTS, *QUICK, "any cheaper"]
    print("|", " | ".join(head), "|")
    print("|", " | ".join("---" for _ in head), "|")
    for folder in options.models:
        for mesh in options.meshes:
            bench = Bench(folder, mesh, options)
            for limit in options.limits:
                bench.row(limit)


if __name__ == "__main__":
    main()
