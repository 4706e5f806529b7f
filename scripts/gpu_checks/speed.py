"""Whole models beside torch.compile, what share of the hardware they reach, and loading weights."""

import statistics

import numpy as np

from . import large_models, steps, tensors
from .processes import Failure, ShortTime, Skip
from .torch_side import TorchSide

TITLE = "Speed of models"
SLOWER_ALLOWED = 1.0
PREFILL_SHARE = 0.6  # of the measured peak, of the 8B model
STEP_ALLOWED = 1.3  # times reading the weights once
LOADING_SHARE = 0.8  # of the pinned copy's rate
BYTES_OF_HALF = 2
TUNING_SECONDS = 90  # max-autotune is tried where so many are left
LAST_SECONDS = 90  # are kept for the last model
TIMING_SECONDS = 120  # are kept for what is ready
# Between two programs in the same half type whose sums have other orders.
OUTPUT_TOLERANCE = {"float16": 0.02, "bfloat16": 0.1}


def milliseconds(seconds):
    return f"{seconds * 1e3:.3f} ms"


def flops_of(model, multiplied_weights):
    """Arithmetic of a causal model's whole input: linear layers, half of attention's products."""
    tokens = model.rows * model.tokens
    width = model.sizes["hidden_size"]
    attention = 2 * tokens * model.tokens * width * model.sizes["num_hidden_layers"]
    return 2 * tokens * multiplied_weights + attention


class ModelSpeed:
    """One model, and PyTorch's process with the same model beside it."""

    def __init__(self, context, model, file, loaded):
        self.context, self.model, self.file = context, model, file
        self.loaded = loaded  # what PyTorch told of the model
        self.torch = context.torch_sides[model.name]
        self.folder = context.work / "speed" / model.name
        self.repeat = repeat(context)

    def check(self):
        self.check_whole()
        if self.model.has_step and not self.context.is_late(20):
            self.check_step()

    def inputs(self, rows, tokens):
        """PyTorch's own, in files: their shapes, and the options that name them."""
        folder = self.folder / f"inputs-{tokens}"
        folder.mkdir(parents=True, exist_ok=True)
        shapes = self.torch.ask(self.context.timeout(), do="inputs", rows=rows, tokens=tokens,
                                folder=str(folder))
        options = [word for name in shapes
                   for word in ("--input", f"{name}={folder / name}.npy")]
        return shapes, options

    def run(self, rows, tokens):
        """Partitions for one GPU and runs: prediction, measurements, outputs' folder, command."""
        shapes, options = self.inputs(rows, tokens)
        bundle, out = self.folder / f"bundle-{tokens}", self.folder / f"out-{tokens}"
        trace = self.folder / f"trace-{tokens}.json"
        program, timeout = self.context.program, self.context.timeout
        info = program.partition(self.file, bundle, 1, shapes, timeout(), "--force")
        measured, command = program.run_json(
            "run", "--dir", bundle, *program.on_device("nccl"), *options, "--repeat", self.repeat,
            "--output-dir", out, "--profile", trace, timeout=timeout(200))
        for data in bundle.glob("*.data"):
            data.unlink()  # disks are small beside three copies of a model
        what = f"{self.model.name}, {rows}x{tokens}"
        self.context.report.notes[f"Steps of {what}"] = steps.table(trace)
        self.context.figures.setdefault("models", {})[what] = {
            "measured": measured["seconds"], "predicted": info["plan"]["cost_seconds"],
            "file": self.file, "shapes": shapes}
        return info, measured, out, command

    def time_torch(self, rows, tokens, mode="default", most=200):
        return self.torch.ask(self.context.timeout(most), do="time", rows=rows, tokens=tokens,
                              mode=mode, repeat=self.repeat)["seconds"]

    def check_whole(self):
        model, report = self.model, self.context.report
        size = (model.rows, model.tokens)
        theirs = [self.time_torch(*size)]
        info, measured, out, command = self.run(*size)
        theirs.append(self.time_torch(*size))
        compiled, ours = statistics.median(theirs), measured["seconds"]
        what = self.what()
        report.judge_time(
            f"{what}: beside torch.compile", f"at least as fast: ratio {SLOWER_ALLOWED:g}",
            f"{milliseconds(ours)}, torch.compile {milliseconds(compiled)}, "
            f"ratio {compiled / ours:.2f}", compiled / ours >= SLOWER_ALLOWED, command)
        self.check_output(what, out, info, command)
        self.check_prefill(what, ours, command)
        self.check_loading(what, measured, command)

    def check_tuned(self):
        """Beside what PyTorch finds when it tries kernels, which takes it a minute or more."""
        model, what = self.model, self.what()
        ours = self.context.figures["models"][f"{model.name}, {model.rows}x{model.tokens}"]["measured"]
        try:
            tuned = self.time_torch(model.rows, model.tokens, mode="max-autotune", most=TUNING_SECONDS)
            self.context.report.tell(f"{what}: beside max-autotune",
                                     f"{milliseconds(tuned)}, ratio {tuned / ours:.2f}")
        except (Failure, Skip) as reason:
            self.context.report.skip(f"{what}: beside max-autotune", reason)

    def what(self):
        return f"{self.model.name}, {self.model.rows}x{self.model.tokens}, {self.model.data_type}"

    def check_output(self, what, out, info, command):
        """The same weights on both sides give the same output."""
        if self.model.is_hollow:
            return
        file = self.folder / "torch.npy"
        every = self.torch.ask(self.context.timeout(), do="output", rows=self.model.rows,
                               tokens=self.model.tokens, file=str(file))["every"]
        [output] = info["profiles"][0]["outputs"]
        ours = np.load(tensors.output_file(out, output["name"]), mmap_mode="r")[:, ::every]
        error = tensors.relative_error(np.load(file), np.asarray(ours, np.float32))
        tolerance = OUTPUT_TOLERANCE[self.model.data_type]
        self.context.report.judge(f"{what}: output beside PyTorch's", f"at most {tolerance:g}",
                                  f"{error:.1e}", error <= tolerance, command)

    def check_prefill(self, what, seconds, command):
        peaks = self.context.figures.get("peaks")
        if not peaks or self.model.kind != "llama":
            return
        rate = flops_of(self.model, self.loaded["multiplied_weights"]) / seconds
        peak = peaks["flops_per_second"][self.model.data_type]
        told = f"{rate / 1e12:.0f} TFLOP/s of {peak / 1e12:.0f}: {rate / peak:.0%}"
        if self.model.name == "llama-8b":
            self.context.report.judge_time(
                f"{what}: share of the peak", f"{PREFILL_SHARE:.0%}", told,
                rate / peak >= PREFILL_SHARE, command)
        else:
            self.context.report.tell(f"{what}: share of the peak", told, command)

    def check_loading(self, what, measured, command):
        weight_bytes = self.loaded["weight_bytes"]
        peaks, seconds = self.context.figures.get("peaks"), measured.get("upload_seconds")
        if not peaks or weight_bytes < 1e9:  # too small to be measured
            return
        if seconds is None:
            self.context.report.skip(f"{what}: loading weights", "--json has no upload_seconds")
            return
        seconds = max(seconds) if isinstance(seconds, list) else seconds  # by rank
        rate, pinned = weight_bytes / seconds, peaks["pinned_bytes_per_second"]
        self.context.report.judge_time(
            f"{what}: loading weights", f"{LOADING_SHARE:.0%} of a pinned copy's rate",
            f"{rate / 1e9:.1f} GB/s of {pinned / 1e9:.1f}: {rate / pinned:.0%}",
            rate / pinned >= LOADING_SHARE, command)

    def check_step(self):
        _, measured, _, command = self.run(1, 1)
        seconds, peaks = measured["seconds"], self.context.figures.get("peaks")
        what = f"{self.model.name}, a single token"
        if not peaks:
            self.context.report.tell(what, milliseconds(seconds), command)
            return
        read_bytes = BYTES_OF_HALF * self.loaded["multiplied_weights"]
        reading = read_bytes / peaks["copy_bytes_per_second"]
        self.context.report.judge_time(
            what, f"{STEP_ALLOWED:g} times reading the weights once",
            f"{milliseconds(seconds)}, reading {milliseconds(reading)}: {seconds / reading:.2f}",
            seconds / reading <= STEP_ALLOWED, command)


def repeat(context):
    return 5 if context.self_test else 20


def chosen_models(context):
    return (large_models.SMALL if context.self_test else large_models.MODELS).values()


def start(context):
    """PyTorch's processes load and compile while other things are checked."""
    for model in chosen_models(context):
        torch = context.torch_sides[model.name] = TorchSide()
        torch.send(do="load", model=model.name, device=context.torch_device())
        torch.send(do="time", rows=model.rows, tokens=model.tokens, mode="default",
                   repeat=repeat(context))


def wait_for_all(context):
    """Nothing is timed before all models are exported and compiled, or given up: what is ready, by
    model."""
    def timeout():
        return ShortTime(max(1.0, min(200.0, context.clock.left() - TIMING_SECONDS)))

    ready = {}
    for model in chosen_models(context):
        torch = context.torch_sides[model.name]
        try:
            loaded = torch.receive(timeout())
            torch.receive(timeout())  # compiled, and timed while others worked
            file = context.exports.file_of(model.name, timeout())
            ready[model] = ModelSpeed(context, model, file, loaded)
        except Skip as reason:
            context.report.skip(model.name, reason)
            torch.stop()
        except Failure as failure:
            context.report.fail(model.name, failure)
    return ready


def measure_peaks(context):
    if context.self_test:
        return
    torch = TorchSide()
    try:
        peaks = torch.ask(context.timeout(60), do="peaks")
    finally:
        torch.stop()
    context.figures["peaks"] = peaks
    for name, rate in peaks["flops_per_second"].items():
        context.report.tell(f"peak: product 8192^3 in {name}", f"{rate / 1e12:.1f} TFLOP/s")
    for key, what in (("copy_bytes_per_second", "copy on the GPU, read and written"),
                      ("pinned_bytes_per_second", "copy to the GPU from pinned memory")):
        context.report.tell(f"peak: {what}", f"{peaks[key] / 1e9:.1f} GB/s")
    context.report.tell("a small kernel in a graph", f"{peaks['launch_seconds'] * 1e6:.2f} us")


def kept_for_last(model, models):
    """Seconds: the largest model comes last, when the others' files are gone from the disk."""
    return LAST_SECONDS if model is not list(models)[-1] else 0


def check(context):
    if context.exports is None:
        raise Skip("no PyTorch")
    ready = wait_for_all(context)
    context.wait_for_quiet()
    measure_peaks(context)
    timed = []
    for model, model_speed in ready.items():
        if context.is_late(30 + kept_for_last(model, ready)):
            context.report.skip(model.name, "no time was left")
            continue
        try:
            model_speed.check()
            timed.append(model_speed)
        except Skip as reason:
            context.report.skip(model.name, reason)
        except Failure as failure:
            context.report.fail(model.name, failure)
        finally:
            context.exports.drop_weights(model.name)
    for model_speed in timed:
        if not context.self_test and not context.is_late(TUNING_SECONDS):
            model_speed.check_tuned()
