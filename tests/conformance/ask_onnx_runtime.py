"""Writes what ONNX Runtime answers to variants of make_odd_tests.py as what they expect.

Usage: ask_onnx_runtime.py VARIANTS
A variant that ONNX Runtime refuses, or at which it crashes or takes too long, expects nothing. So
does one of a test whose own outputs ONNX Runtime gets wrong: what it says of others like it is no
witness. One line is printed for each of these kinds, with how many they are.
"""

import argparse
import json
import os
import resource
import select
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

SECONDS = 60  # for one variant
MEMORY = 12 << 30  # of address space
NEWEST_IR, NEWEST_OPSET = 12, 26  # of ONNX Runtime
RELATIVE, ABSOLUTE = 1e-3, 1e-7  # as onnx_conformance has them where a test says nothing


def read_tensors(folder, kind, ports):
    """Arrays by name; of those that have a file."""
    files = {port.name: folder / f"{kind}_{i}.pb" for i, port in enumerate(ports)}
    return {name: onnx.load_tensor(file) for name, file in files.items() if file.exists()}


def session_of(onnxruntime, model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_model(onnxruntime, model, tensors):
    """Outputs by name as TensorProto; raises where ONNX Runtime refuses."""
    session = session_of(onnxruntime, model)
    feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(tensor))
             for name, tensor in tensors.items()}  # fmt: skip
    names = [output.name for output in session.get_outputs()]
    outputs = session.run_with_ort_values(names, feeds)
    return {name: numpy_helper.from_array(output.numpy()) for name, output in zip(names, outputs)}


def as_known(model):
    """The model as one of the newest version that ONNX Runtime has. Whether its operators are what
    they were then is seen from the outputs of the unchanged test."""
    known = onnx.ModelProto()
    known.CopyFrom(model)
    known.ir_version = min(model.ir_version, NEWEST_IR)
    for opset in known.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = min(opset.version, NEWEST_OPSET)
    return known


def with_constants(model, tensors):
    """The same model with the inputs as initializers: some kernels want theirs to be."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.input[:]
    for name, tensor in tensors.items():
        tensor.name = name
        fixed.graph.initializer.append(tensor)
    return fixed


def answers(onnxruntime, model, tensors):
    model = as_known(model)
    try:
        return run_model(onnxruntime, model, tensors)
    except Exception:  # of several types, none of which is its own
        return run_model(onnxruntime, with_constants(model, tensors), {})


def is_close(expected, found, limits):
    if found is None or expected.data_type != found.data_type or expected.dims != found.dims:
        return False
    expected, found = numpy_helper.to_array(expected), numpy_helper.to_array(found)
    if expected.dtype.kind in "OSU":
        return np.array_equal(expected, found)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return np.allclose(found.astype(wide), expected.astype(wide), limits.get("rtol", RELATIVE),
                           limits.get("atol", ABSOLUTE), equal_nan=True)  # fmt: skip


class Witness:
    """What ONNX Runtime says; knows of which tests it gets the outputs right."""

    def __init__(self):
        import onnxruntime  # here: a process that it ends must be another

        onnxruntime.set_default_logger_severity(4)
        self._runtime = onnxruntime
        self._is_right = {}

    def is_right_of(self, test):
        if test not in self._is_right:
            self._is_right[test] = self._reproduces(test)
        return self._is_right[test]

    def _reproduces(self, test):
        model = onnx.load(test / "model.onnx")
        limits = json.loads((test / "data.json").read_text())
        data = test / "test_data_set_0"
        expected = read_tensors(data, "output", model.graph.output)
        try:
            found = answers(self._runtime, model, read_tensors(data, "input", model.graph.input))
        except Exception:
            return False
        return all(is_close(tensor, found.get(name), limits) for name, tensor in expected.items())

    def ask(self, variant):
        """What came of it."""
        data = variant / "test_data_set_0"
        if not self.is_right_of(Path(json.loads((variant / "data.json").read_text())["variant_of"])):
            return "of tests that ONNX Runtime does not pass"
        model = onnx.load(variant / "model.onnx")
        try:
            found = answers(self._runtime, model, read_tensors(data, "input", model.graph.input))
        except Exception:
            return "refused"
        for i, output in enumerate(model.graph.output):
            (data / f"output_{i}.pb").write_bytes(found[output.name].SerializeToString())
        return "answered"


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def work(variants, pipe):
    """In a process of its own: a line for each variant."""
    limit_memory()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    witness = Witness()
    for variant in variants:
        os.write(pipe, (witness.ask(variant) + "\n").encode())


def start(variants):
    """Process and pipe that tell of them."""
    here, there = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(here)
        code = 1
        try:
            work(variants, there)
            code = 0
        finally:
            os._exit(code)
    os.close(there)
    return process, here


def lines_of(process, pipe):
    """Its lines until it ends, or is ended where the next takes too long."""
    said = b""
    while True:
        if not select.select([pipe], [], [], SECONDS)[0]:
            os.kill(process, signal.SIGKILL)
            break
        got = os.read(pipe, 1 << 16)
        if not got:
            break
        *whole, said = (said + got).split(b"\n")
        yield from (line.decode() for line in whole)
    os.close(pipe)
    os.waitpid(process, 0)


def ask_all(variants):
    """What came of each; those at which the process ended are said to have crashed it."""
    done = []
    while len(done) < len(variants):
        done.extend(lines_of(*start(variants[len(done) :])))
        if len(done) < len(variants):
            for output in variants[len(done)].glob("test_data_set_0/output_*.pb"):
                output.unlink()
            done.append("crashed or hung")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variants", type=Path)
    variants = sorted(path.parent for path in parser.parse_args().variants.rglob("model.onnx"))
    if not variants:
        sys.exit("no variants there")
    for what, count in sorted(Counter(ask_all(variants)).items()):
        print(f"{what}: {count}")


if __name__ == "__main__":
    main()
