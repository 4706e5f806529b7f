"""PyTorch's side of the comparisons, in a process of its own, which answers lines of JSON by lines of
JSON. As a program it is that process.

{"do": "peaks"}                                        rates of this GPU
{"do": "load", "model": NAME, "device": "cuda"}        builds a model: {"weight_bytes", "multiplied_weights"}
{"do": "inputs", "rows", "tokens", "folder"}           writes folder/NAME.npy: {NAME: shape}
{"do": "time", "rows", "tokens", "mode", "repeat"}     {"seconds"}: median of torch.compile(mode)
{"do": "output", "rows", "tokens", "file"}             what it computes, as .npy of float32
{"do": "fill_memory", "left": BYTES}                   takes the GPU's memory but for so much
{"do": "products", "m", "k", "n", "pairs", "type"}     {"seconds"} of a chain of matrix products
"""

import json
import os
import select
import statistics
import subprocess
import sys

from . import processes
from .context import SOURCE
from .processes import Failure


class TorchSide:
    """Our end: starts the process and talks to it."""

    def __init__(self):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "scripts"), "HF_HUB_OFFLINE": "1",
                       "TORCHINDUCTOR_COMPILE_THREADS": "4"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpu_checks.torch_side"], env=environment,
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, bufsize=0)  # select must see every answer that is there

    def ask(self, timeout, **request):
        self.send(**request)
        return self.receive(timeout)

    def send(self, **request):
        """The answer may be received later: requests are answered in order."""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise Failure("PyTorch's process died") from None

    def receive(self, timeout):
        """Throws as Process.finish does if there is no answer in time; the process is gone then."""
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            self.stop()
            raise processes.too_late(timeout, f"PyTorch did not answer within {timeout:.0f} s")
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "PyTorch's process died"}
        if "error" in answer:
            raise Failure(f"PyTorch: {answer['error']}")
        return answer

    def stop(self):
        processes.kill_group(self._process)


def timed(torch, device, work, repeat):
    """Seconds of each of `repeat` calls, by the GPU's clock."""
    if device == "cpu":
        import time

        seconds = []
        for _ in range(repeat):
            begin = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begin)
        return seconds
    seconds = []
    for _ in range(repeat):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    return seconds


def replayed(torch, device, work):
    """The work as a CUDA graph, so that launches are not what is measured."""
    work()
    if device == "cpu":
        return work
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class Peaks:
    """Rates of the GPU, each a median."""

    SIZE, GIBIBYTE, TINY_KERNELS = 8192, 1 << 30, 1000

    def __init__(self, torch):
        self.torch = torch

    def seconds(self, work, repeat=10):
        for _ in range(2):
            work()
        return statistics.median(timed(self.torch, "cuda", work, repeat))

    def products(self):
        torch, rates = self.torch, {}
        torch.backends.cuda.matmul.allow_tf32 = False
        for name in ("bfloat16", "float16", "float32", "float64"):
            shape = (self.SIZE, self.SIZE)
            a, b = (torch.randn(shape, device="cuda").to(getattr(torch, name)) for _ in range(2))
            rates[name] = 2 * self.SIZE**3 / self.seconds(lambda: a @ b)
        return rates

    def launch_seconds(self):
        """Seconds of a small kernel among many in a graph."""
        x = self.torch.zeros(32, device="cuda")

        def many():
            for _ in range(self.TINY_KERNELS):
                x.add_(1)

        return self.seconds(replayed(self.torch, "cuda", many)) / self.TINY_KERNELS

    def measure(self):
        torch, size = self.torch, self.GIBIBYTE
        source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return {
            "flops_per_second": self.products(),
            "copy_bytes_per_second": 2 * size / self.seconds(lambda: target.copy_(source)),
            "pinned_bytes_per_second": size / self.seconds(
                lambda: target.copy_(host, non_blocking=True)),
            "launch_seconds": self.launch_seconds(),
            "memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        }


class Worker:
    def __init__(self):
        import torch

        self.torch = torch
        self.compiled = {}

    def peaks(self, _):
        return Peaks(self.torch).measure()

    def load(self, request):
        from . import large_models

        self.model = large_models.find(request["model"])
        self.device = request["device"]
        place = self.device if self.model.is_hollow else "cpu"
        self.network, self.sample, self.names = large_models.build(self.model, place, "sdpa")
        self.network.to(self.device)
        return {
            "weight_bytes": sum(p.numel() * p.element_size() for p in self.network.parameters()),
            # by linear layers, the last one included; embeddings are looked up
            "multiplied_weights": sum(
                module.weight.numel() for module in self.network.modules()
                if type(module).__name__ in ("Linear", "Conv1D")),
        }

    def time(self, request):
        mode = request["mode"]
        inputs = self.make_inputs(request)
        key = (mode, request["rows"], request["tokens"])
        if key not in self.compiled:
            self.torch._dynamo.reset()
            options = {"dynamic": False} | ({} if mode == "default" else {"mode": mode})
            is_tested = self.device == "cpu"  # where there may be no compiler
            self.compiled[key] = (
                self.network if is_tested else self.torch.compile(self.network, **options))
        work = self.compiled[key]
        for _ in range(3):
            work(*inputs)
        return {"seconds": statistics.median(
            timed(self.torch, self.device, lambda: work(*inputs), request["repeat"]))}

    def output(self, request):
        import numpy

        result = self.network(*self.make_inputs(request))
        every = max(1, request["tokens"] // 16)
        numpy.save(request["file"], result[:, ::every].float().cpu().numpy())
        return {"every": every}

    def fill_memory(self, request):
        free, _ = self.torch.cuda.mem_get_info()
        self.filling = self.torch.empty(free - request["left"], dtype=self.torch.uint8, device="cuda")
        return {}

    def inputs(self, request):
        import numpy

        shapes = {}
        for name, tensor in zip(self.names, self.make_inputs(request)):
            numpy.save(f"{request['folder']}/{name}.npy", tensor.cpu().numpy())
            shapes[name] = list(tensor.shape)
        return shapes

    def make_inputs(self, request):
        made = self.sample.draw(self.names, request["rows"], request["tokens"])
        return tuple(tensor.to(self.device) for tensor in made)

    def products(self, request):
        torch, device = self.torch, request["device"]
        m, k, n = (request[key] for key in "mkn")
        kind = getattr(torch, request["type"])
        x, w, v = (torch.randn(shape, device=device).to(kind) / divisor**0.5
                   for shape, divisor in (((m, k), 1), ((k, n), k), ((n, k), n)))

        def chain():
            y = x
            for _ in range(request["pairs"]):
                y = (y @ w) @ v
            return y

        work = replayed(torch, device, chain)
        for _ in range(3):
            work()
        return {"seconds": statistics.median(timed(torch, device, work, request["repeat"]))}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with worker.torch.no_grad():
                answer = getattr(worker, request["do"])(request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
