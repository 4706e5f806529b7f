"""Single operators on one rank against ONNX Runtime on the same threads: where a kernel is far behind.

Usage: bench_operators.py [NAME...] [--threads 2] [--below RATIO]
Each line is an operator on tensors of about a million elements, or of a size that models have; NAMEs
choose those that begin so. A ratio above 1 means that autopar is faster; the error is of the first
output, relative to its largest number. Both sides run in turns, and of each the better of two counts.
Inputs and outputs stay where they are between runs.
"""

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from bench_run import time_session
from measure import autopar, machine, run_json
from operator_cases import OPERATORS, Case

SECONDS_OF_A_TURN = 0.15


def model_of(case, feeds):
    """The operator alone, with outputs as ONNX Runtime makes them; and those outputs."""
    given = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()]
    weights = [numpy_helper.from_array(array, name) for name, array in case.constants.items()]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.operator, case.names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node], "operator", given, [onnx.ValueInfoProto(name=name) for name in outputs], weights)
    opsets = [helper.make_opsetid("", case.opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model


def session_of(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def declare_outputs(model, results):
    for output, array in zip(model.graph.output, results, strict=True):
        output.CopyFrom(helper.make_tensor_value_info(
            output.name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))


class Trial:
    """An operator in both programs, with its files in `folder`."""

    def __init__(self, case, threads, folder):
        self.threads, self.folder = threads, folder
        self.feeds = case.given
        model = model_of(case, self.feeds)
        self.session = session_of(model, threads)
        self.results = self.session.run(None, self.feeds)
        declare_outputs(model, self.results)
        onnx.save(model, folder / "model.onnx")
        self.inputs = []
        for name, array in self.feeds.items():
            np.save(folder / f"{name}.npy", array)
            self.inputs += ["--input", f"{name}={folder / name}.npy"]
        autopar("partition", folder / "model.onnx", "--ngpus", 1, "--device", "cpu",
                "--out", folder / "bundle")

    def turn(self):
        """Milliseconds of autopar and of ONNX Runtime."""
        start = time.perf_counter()
        self.session.run(None, self.feeds)
        repeat = int(min(max(SECONDS_OF_A_TURN / (time.perf_counter() - start), 3), 50))
        theirs = time_session(self.session, self.feeds, repeat)
        measured = run_json(
            "run", "--dir", self.folder / "bundle", "--threads", self.threads, "--repeat", repeat,
            "--json", "--output-dir", self.folder, *self.inputs)
        return 1e3 * measured["seconds"], 1e3 * theirs

    def error(self):
        expected = np.asarray(self.results[0], np.float64)
        actual = np.asarray(np.load(self.folder / "y0.npy"), np.float64)
        scale = max(np.abs(expected).max(initial=0), 1e-9)
        return np.abs(expected - actual).max(initial=0) / scale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--below", type=float, default=math.inf, metavar="RATIO",
                        help="print only operators below it")
    options = parser.parse_args()
    print(f"{machine()}; {options.threads} threads, onnxruntime {onnxruntime.__version__}\n")
    print("| operator | one rank, ms | ONNX Runtime, ms | its time / ours | error |")
    print("| --- | --- | --- | --- | --- |")
    ratios, refused = [], []
    for name, make in OPERATORS.items():
        if not name.startswith(tuple(options.names or [""])):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                trial = Trial(Case(make()), options.threads, Path(folder))
                own, others = map(min, zip(*(trial.turn() for _ in range(2))))
                error = trial.error()
            except Exception as failure:  # of either program: the others go on
                refused.append(f"{name}: {failure}".splitlines()[0])
                continue
        ratios.append(others / own)
        if ratios[-1] < options.below:
            print(f"| {name} | {own:.3f} | {others:.3f} | {ratios[-1]:.2f} | {error:.0e} |",
                  flush=True)
    print(f"\nGeometric mean over {len(ratios)} operators: "
          f"{math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)):.2f}")
    for line in refused:
        print(f"Not run: {line}")


if __name__ == "__main__":
    sys.exit(main())
