"""What goes wrong is one clear line and exit 1, and no process stays."""

import os
import signal
import socket
import time

import numpy as np
from onnx import TensorProto, helper

from . import exports, processes, tensors, tiny_models
from .processes import Failure
from .tensors import FLOAT
from .torch_side import TorchSide

TITLE = "Faults"
WAIT = 5  # seconds, for --timeout
GRACE = 15  # more seconds that a rank may take to start, and to end
MANY_RUNS = 1_000_000
LARGE_WIDTH, LARGE_LAYERS = 1 << 14, 6  # a layer is 1 GiB in float32


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_clear(done, words):
    """Exit 1, and one line of error that has one of the words in it. What else is said beforehand
    (that collectives go through the host) is no error."""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    return done.code == 1 and len(errors) == 1 and any(word in errors[0] for word in words)


def judge(report, what, words, finished):
    """One or more processes that should have failed for a reason with one of these words in it."""
    wrong = [done for done in finished if not is_clear(done, words)]
    shown = (wrong or finished)[0]
    report.judge(what, "exit 1 and one line with " + " or ".join(f"'{word}'" for word in words),
                 f"exit {shown.code}: {shown.last_line()}", not wrong, shown.text())


class Faults:
    def __init__(self, context):
        self.context, self.program = context, context.program
        self.model = tiny_models.load("mlp-dynamo", FLOAT, context.work / "tiny")
        self.bundles = {}
        for ranks in (1, 2, 3):
            self.bundles[ranks] = context.work / "faults" / f"bundle{ranks}"
            self.program.partition(self.model.file, self.bundles[ranks], ranks, self.model.shapes(),
                                   context.timeout())

    def arguments(self, ranks, collectives, *more):
        return ("run", "--dir", self.bundles[ranks], *self.program.on_device(collectives),
                *self.model.input_options, *more)

    def run(self, *arguments):
        return self.program.finish(*arguments, timeout=self.context.timeout(60))

    def start_ranks(self, ranks, total, port, *more):
        """A process a rank, all to meet at a port."""
        return [self.program.start(*self.arguments(total, "host", "--rank", rank, "--rendezvous",
                                                   f"127.0.0.1:{port}", "--timeout", WAIT, *more))
                for rank in ranks]

    def no_such_gpu(self):
        return ["no GPU 7"], [self.run(*self.arguments(1, "host", "--gpu", 7))]

    def no_gpu_at_all(self):
        environment = {**self.program.environment, "CUDA_VISIBLE_DEVICES": ""}
        command = [self.program.file, *self.arguments(1, "host")]
        return ["no GPU", "no NVIDIA"], [processes.run(command, environment, self.context.timeout(60))]

    def two_ranks_on_one_gpu(self):
        return ["GPU"], [self.run(*self.arguments(2, "nccl"))]

    def out_of_memory(self):
        """PyTorch takes all memory but what the start of a program needs."""
        folder = self.context.work / "faults" / "large"
        write_large_model(folder)
        x = np.zeros((1, LARGE_WIDTH), np.float32)
        options = tensors.write_inputs(folder, {"x": x}, FLOAT)
        self.program.partition(folder / "model.onnx", folder / "bundle", 1, {},
                               self.context.timeout(), "--memory", "device")
        torch = TorchSide()
        try:
            torch.ask(self.context.timeout(60), do="fill_memory", left=LARGE_LAYERS // 2 << 30)
            return ["--memory"], [self.run("run", "--dir", folder / "bundle",
                                         *self.program.on_device("host"), *options)]
        finally:
            torch.stop()

    def rank_beyond_the_world(self):
        return ["rank 3"], [self.run(*self.arguments(
            3, "host", "--rank", 3, "--rendezvous", f"127.0.0.1:{free_port()}"))]

    def nobody_comes(self):
        return ["rank"], self.finish_all(self.start_ranks([0], 3, free_port()))

    def bundle_for_another_world(self):
        port = free_port()
        ranks = self.start_ranks([0], 3, port) + self.start_ranks([1], 2, port)
        return ["bundle", "rank", "world"], self.finish_all(ranks)

    def two_ranks_with_one_number(self):
        port = free_port()
        return ["rank"], self.finish_all(self.start_ranks([0, 1, 1], 3, port))

    def port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            return ["port", "address", "in use"], self.finish_all(self.start_ranks([0], 3, port))

    def killed_rank(self):
        ranks = self.start_ranks(range(3), 3, free_port(), "--repeat", MANY_RUNS)
        time.sleep(3 if self.context.self_test else 10)
        early = [rank for rank in ranks if rank.has_ended()]
        if not early:
            os.kill(ranks[1].pid, signal.SIGKILL)
        finished = self.finish_all(ranks)
        return ["rank 1"], [finished[0], finished[2]]

    def finish_all(self, started):
        try:
            return [process.finish(WAIT + GRACE) for process in started]
        finally:
            for process in started:
                process.stop()


ON_ANY_DEVICE = (Faults.rank_beyond_the_world, Faults.nobody_comes, Faults.bundle_for_another_world,
                 Faults.two_ranks_with_one_number, Faults.port_in_use, Faults.killed_rank)
ON_GPUS = (Faults.no_such_gpu, Faults.no_gpu_at_all, Faults.two_ranks_on_one_gpu)
WITH_PYTORCH = (Faults.out_of_memory,)


def check(context):
    faults = Faults(context)
    cases = ON_ANY_DEVICE
    if context.program.device == "cuda":
        has_pytorch = not context.self_test and not exports.missing_packages()
        cases = (*ON_GPUS, *cases, *(WITH_PYTORCH if has_pytorch else ()))
    for case in cases:
        what = case.__name__.replace("_", " ")
        if context.is_late(2 * (WAIT + GRACE)):
            context.report.skip(what, "no time was left")
            continue
        try:
            judge(context.report, what, *case(faults))
        except Failure as failure:
            context.report.fail(what, failure)


def write_large_model(folder):
    """Layers of zeros, 1 GiB each; the file is sparse."""
    folder.mkdir(parents=True)
    nodes, weights = [], []
    for layer in range(LARGE_LAYERS):
        weight = TensorProto(name=f"w{layer}", data_type=FLOAT, dims=[LARGE_WIDTH] * 2,
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "model.data"), ("offset", layer << 30), ("length", 1 << 30)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes.append(helper.make_node(
            "MatMul", [f"h{layer}" if layer else "x", f"w{layer}"], [f"h{layer + 1}"], f"m{layer}"))
    ports = [helper.make_tensor_value_info(name, FLOAT, [1, LARGE_WIDTH])
             for name in ("x", f"h{LARGE_LAYERS}")]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with open(folder / "model.data", "wb") as data:
        data.truncate(LARGE_LAYERS << 30)
