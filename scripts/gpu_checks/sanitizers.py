"""NVIDIA's compute-sanitizer over the sample models."""

import re
import shutil
from pathlib import Path

from . import tiny_models
from .processes import Failure, Skip
from .tensors import FLOAT, FLOAT16, NAMES

TITLE = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
# Between them every pattern that is fused, and a convolution; the rest as time allows.
FIRST = ("llama-torchscript", "gpt2-dynamo", "vit-dynamo", "bert-torchscript")


def count_findings(text):
    """Errors or hazards that a tool's summary tells of. Throws Failure where there is none."""
    found = SUMMARY.findall(text)
    if not found:
        raise Failure("no summary: " + " ".join(text.split())[-300:])
    return sum(map(int, found))


def find_tool():
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        raise Skip("compute-sanitizer is not installed")
    return found


def check(context):
    if context.program.device != "cuda":
        raise Skip("for GPUs alone")
    sanitizer = find_tool()
    names = [*FIRST, *(name for name in tiny_models.names() if name not in FIRST)]
    for name in names:
        for data_type in (FLOAT, FLOAT16):
            model = tiny_models.load(name, data_type, context.work / "tiny")
            bundle = context.work / f"sanitized-{name}-{NAMES[data_type]}"
            for tool in TOOLS:
                what = f"{name}, {NAMES[data_type]}, {tool}"
                if context.is_late(15):
                    context.report.skip(what, "no time was left")
                    return
                check_one(context, model, bundle, [sanitizer, "--tool", tool], what)


def check_one(context, model, bundle, under, what):
    try:
        if not bundle.exists():
            context.program.partition(model.file, bundle, 1, model.shapes(), context.timeout())
        done = context.program.finish(
            "run", "--dir", bundle, *context.program.on_device("host"), *model.input_options,
            "--repeat", 2, under=under, timeout=context.timeout())
        findings = count_findings(done.stdout + done.stderr)
        context.report.judge(what, "0 errors, exit 0", f"{findings} errors, exit {done.code}",
                             findings == 0 and done.code == 0, done.text())
    except Failure as failure:
        context.report.fail(what, failure)
