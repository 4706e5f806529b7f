"""The CUDA runner from the command line, on emulated GPUs (tests/emulation): every sample model, whole
and split, launched in every way, and what goes wrong. The emulation queues work in random order, so
that what lacks an order fails here; it tells nothing about speed."""

import json
import os
import subprocess
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support import AUTOPAR, MODELS, TOLERANCE, Model, TemporaryFolderTest, mpirun, run
from test_rendezvous import free_port

EMULATED = os.environ["AUTOPAR_EMULATED_PLUGINS"]


def environment(**more):
    return {**os.environ, "AUTOPAR_PLUGIN_DIR": EMULATED, **more}


class CudaTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.environment = environment()

    def start(self, bundle, *options, device="cuda"):
        command = [AUTOPAR, "run", "--dir", bundle, "--device", device, *options]
        return subprocess.Popen(
            list(map(str, command)),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process, expect=0):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, expect, err)
        return out if expect == 0 else err

    def run_cuda(self, bundle, *options):
        return self.finish(self.start(bundle, *options))

    def refuse(self, bundle, *options, parts=(), device="cuda"):
        error = self.finish(self.start(bundle, *options, device=device), expect=1)
        self.assertTrue(error.startswith("error: "), error)
        self.assertEqual(len(error.splitlines()), 1, error)
        for part in parts:
            self.assertIn(part, error)


class ZooTest(CudaTest):
    def test_every_model_gives_onnx_runtimes_output_on_one_to_four_ranks(self):
        for name in sorted(path.name for path in MODELS.iterdir()):
            model = Model(name)
            for ranks in (1, 2, 3, 4):
                bundle = self.tmp / f"{name}-{ranks}"
                meta = model.partition(bundle, ranks)
                for collectives in ("nccl", "host"):
                    with self.subTest(model=name, ranks=ranks, collectives=collectives):
                        out = self.tmp / f"{name}-{ranks}-{collectives}"
                        self.environment["AUTOPAR_EMULATION_SEED"] = str(ranks)
                        done = self.run_cuda(
                            bundle, *model.input_options(), "--output-dir", out, "--json",
                            "--collectives", collectives, "--repeat", 2,
                        )  # fmt: skip
                        measured = json.loads(done)
                        self.assertLessEqual(model.error_of(out), TOLERANCE)
                        self.assertEqual(measured["collectives"], meta["plan"]["collectives"])

    def test_the_same_bits_come_from_run_to_run(self):
        model = Model("llama-dynamo")
        bundle = self.tmp / "bundle"
        model.partition(bundle, 2)
        outputs = []
        for seed in ("1", "2", "3"):
            self.environment["AUTOPAR_EMULATION_SEED"] = seed
            out = self.tmp / f"out{seed}"
            self.run_cuda(bundle, *model.input_options(), "--output-dir", out, "--repeat", 2)
            outputs.append([path.read_bytes() for path in sorted(out.iterdir())])
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])

    def test_a_profile_tells_of_both_queues_of_every_rank(self):
        model = Model("gpt2-dynamo")
        bundle = self.tmp / "bundle"
        meta = model.partition(bundle, 2)
        trace = self.tmp / "trace.json"
        self.run_cuda(bundle, *model.input_options(), "--profile", trace)
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        sent = sum(event["args"].get("bytes", 0) for event in events)
        self.assertEqual(sent, sum(use["bytes"] for use in meta["plan"]["collectives"]))


class HalfTest(CudaTest):
    """A small decoder block in half types: fused attention, rotary embedding and norms included."""

    def test_half_models_agree_with_their_float_selves(self):
        for name in ("gpt2-dynamo", "llama-dynamo", "bert-torchscript", "vit-dynamo"):
            model = Model(name)
            for half, tolerance in ((TensorProto.FLOAT16, 2e-2), (TensorProto.BFLOAT16, 1e-1)):
                file = self.tmp / f"{name}-{half}.onnx"
                onnx.save(in_half(onnx.load(model.file), half), file)
                for ranks in (1, 2):
                    with self.subTest(model=name, half=half, ranks=ranks):
                        bundle = self.tmp / f"{name}-{half}-{ranks}"
                        run(AUTOPAR, "partition", file, *model.shape_options(), "--ngpus", ranks,
                            "--out", bundle)  # fmt: skip
                        out = self.tmp / f"out-{name}-{half}-{ranks}"
                        self.run_cuda(
                            bundle, *model.input_options(), "--output-dir", out, "--repeat", 2
                        )
                        self.assertLessEqual(model.error_of(out), tolerance)


def in_half(model, half):
    """The model with its float32 weights and values in a half type; inputs and outputs stay."""
    graph = model.graph
    renamed = {}
    for value in graph.input:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            renamed[value.name] = value.name + "_half"
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = half
            if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(half_tensor(attribute.t, half))
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(half_tensor(tensor, half))
    floats = {v.name for v in graph.output if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    for node in graph.node:
        for i, name in enumerate(node.output):
            if name in floats:
                node.output[i] = name + "_half"
        for i, name in enumerate(node.input):
            if name in floats:
                node.input[i] = name + "_half"
    casts = [helper.make_node("Cast", [old], [new], to=half) for old, new in renamed.items()]
    tail = [
        helper.make_node("Cast", [name + "_half"], [name], to=TensorProto.FLOAT) for name in floats
    ]
    nodes = casts + list(graph.node) + tail
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return model


def half_tensor(tensor, half):
    values = numpy_helper.to_array(tensor)
    if half == TensorProto.FLOAT16:
        raw = values.astype(np.float16).tobytes()
    else:
        bits = values.astype(np.float32).view(np.uint32)
        raw = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return helper.make_tensor(tensor.name, half, tensor.dims, raw, raw=True)


class LaunchTest(CudaTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)
        self.options = self.model.input_options()

    def check(self, out):
        self.assertLessEqual(self.model.error_of(out), TOLERANCE)

    def test_ranks_under_mpirun(self):
        for collectives in ("nccl", "host"):
            out = self.tmp / collectives
            os.environ["AUTOPAR_PLUGIN_DIR"] = EMULATED
            try:
                mpirun(2, "run", "--dir", self.bundle, "--device", "cuda", "--collectives",
                       collectives, *self.options, "--output-dir", out)  # fmt: skip
            finally:
                del os.environ["AUTOPAR_PLUGIN_DIR"]
            self.check(out)

    def start_at_rendezvous(self, *options):
        place = f"127.0.0.1:{free_port()}"
        return [
            self.start(self.bundle, *self.options, "--rank", rank, "--rendezvous", place, *options)
            for rank in (0, 1)
        ]

    def test_ranks_at_a_rendezvous(self):
        for collectives in ("nccl", "host"):
            out = self.tmp / collectives
            for rank in self.start_at_rendezvous("--collectives", collectives, "--output-dir", out):
                self.finish(rank)
            self.check(out)

    def test_a_rank_that_hangs_in_a_collective_ends_the_others_within_the_timeout(self):
        self.environment["AUTOPAR_NCCL_HANG"] = "1:1"
        start = time.monotonic()
        ranks = self.start_at_rendezvous("--timeout", 3, "--repeat", 3)
        errors = [self.finish(rank, expect=1) for rank in ranks]
        self.assertLess(time.monotonic() - start, 60)
        self.assertTrue(any("did not finish within 3 s" in error for error in errors), errors)

    def test_ranks_share_a_gpu_with_host_collectives_alone(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "1"
        self.refuse(self.bundle, *self.options, parts=("1 GPU(s) for 2 ranks", "--collectives host"))
        out = self.tmp / "out"
        done = self.start(self.bundle, *self.options, "--collectives", "host", "--output-dir", out)
        _, err = done.communicate(timeout=300)
        self.assertEqual(done.returncode, 0, err)
        self.assertEqual(err.count("collectives go through the host"), 1, err)
        self.check(out)


class FaultTest(CudaTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)
        self.options = self.model.input_options()

    def test_what_cannot_run_is_told_in_one_line(self):
        self.refuse(self.bundle, *self.options, "--gpu", 0, parts=("--gpu 0", "2 ranks"))
        self.refuse(self.bundle, *self.options, "--collectives", "smoke", parts=("--collectives smoke",))
        self.refuse(self.bundle, *self.options, device="tpu", parts=("--device tpu",))
        self.refuse(self.bundle, *self.options, "--gpu", 0, device="cpu", parts=("--device cuda",))
        self.refuse(self.bundle, *self.options, "--collectives", "host", "--gpu", 9,
                    parts=("no GPU 9",))  # fmt: skip

    def test_no_gpu_and_an_old_driver(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "0"
        self.refuse(self.bundle, *self.options, parts=("no GPU", "--device cpu"))
        self.environment = environment(AUTOPAR_EMULATED_DRIVER="11080")
        self.refuse(self.bundle, *self.options, parts=("driver", "11.8"))

    def test_a_gpu_without_enough_memory_tells_what_was_needed_and_what_was_free(self):
        self.environment["AUTOPAR_EMULATED_MEMORY"] = "65536"
        self.refuse(self.bundle, *self.options, parts=("free", "needs", "--memory"))

    def test_plugins_that_are_missing(self):
        self.environment["AUTOPAR_PLUGIN_DIR"] = str(self.tmp)
        self.refuse(self.bundle, *self.options, parts=("libautopar_cuda.so", "missing"))

    def test_without_an_emulation_this_machine_has_no_gpu_or_says_so(self):
        """The real plugin: refused where there is no driver; a machine with a GPU just runs."""
        del self.environment["AUTOPAR_PLUGIN_DIR"]
        process = self.start(self.bundle, *self.options, "--collectives", "host")
        _, err = process.communicate(timeout=300)
        if process.returncode != 0:
            self.assertEqual(process.returncode, 1, err)
            self.assertIn("--device", err)
