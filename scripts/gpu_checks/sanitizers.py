"""NVIDIA's compute-sanitizer over the sample models and the tests of kernels. What it finds in kernels
of libraries (cuBLAS, NCCL) is told apart from what it finds in ours."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import kernels, tiny_models
from .processes import Failure, Skip
from .tensors import FLOAT, FLOAT16, NAMES

TITLE = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
# "at void name<T>(...)+0x70", "Write access at name+0x1 in file.cu:2", "at 0x70 in name"
KERNEL = re.compile(r"\bat (?:0x[0-9a-f]+ in )?((?!0x).+?)(?:\+0x[0-9a-f]+|$)", re.MULTILINE)
OURS = "autopar::"
LIBRARIES = re.compile(r"lib(?:cublas|cublasLt|nccl)\.so")
PRINTED = 10_000  # findings, at most
# What it says of machines that it cannot look into.
REFUSALS = re.compile(r"Device not supported|not supported on this|Unable to find injection")
# Between them every pattern that is fused, and a convolution; the rest as time allows.
FIRST = ("llama-torchscript", "gpt2-dynamo", "vit-dynamo", "bert-torchscript")


@dataclass(frozen=True)
class Findings:
    ours: list
    of_libraries: list
    not_shown: int

    def text(self):
        parts = [f"{len(self.ours)} in autopar", f"{len(self.of_libraries)} in libraries' own kernels"]
        if self.not_shown:
            parts.append(f"{self.not_shown} that were not shown")
        return ", ".join(parts) + "".join(f"; {ours}" for ours in self.ours[:3])


def entries(text):
    """Each finding of a report: a line that tells what it is, and the lines below it."""
    found = []
    for line in re.findall(r"^========= ?(.*)$", text, re.MULTILINE):
        if not line.strip() or SUMMARY.search(line) or line.startswith("COMPUTE-SANITIZER"):
            continue
        if line.startswith(" ") and found:
            found[-1].append(line.strip())
        elif not line.startswith(" "):
            found.append([line.strip()])
    return found


def is_of_library(entry):
    """The kernel tells; of what no kernel did, the first library on the stack."""
    text = "\n".join(entry)
    names = [name for name in KERNEL.findall(text) if "Host Frame" not in name]
    if names:
        return not any(OURS in name for name in names)
    return bool(LIBRARIES.search(text))


def findings_of(text):
    """Throws Skip where the tool cannot work here, and Failure where it did not say what it found."""
    if refusal := REFUSALS.search(text):
        raise Skip(f"not possible here: {refusal[0]}")
    summaries = SUMMARY.findall(text)
    if not summaries:
        raise Failure("no summary: " + " ".join(text.split())[-300:])
    total = sum(map(int, summaries))
    found = entries(text)[:total] if total else []
    of_libraries = [entry for entry in found if is_of_library(entry)]
    ours = [" ".join(entry[:2]) for entry in found if entry not in of_libraries]
    return Findings(ours, of_libraries, max(0, total - hazards_of(found)))


def hazards_of(found):
    """Racecheck counts hazards, of which an entry may tell several: "[12 hazards]"."""
    return sum(int(many[1]) if (many := re.search(r"\[(\d+) hazards?\]", entry[0])) else 1
               for entry in found)


def find_tool():
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        raise Skip("compute-sanitizer is not installed")
    return found


def sanitizer_command(sanitizer, tool):
    return [sanitizer, "--tool", tool, "--print-limit", PRINTED]


def check(context):
    if context.program.device != "cuda":
        raise Skip("for GPUs alone")
    sanitizer = find_tool()
    for check_all in (check_models, check_kernels):
        if context.is_late(15):
            context.report.skip(check_all.__name__.replace("_", " "), "no time was left")
        else:
            check_all(context, sanitizer)


def check_models(context, sanitizer):
    """All kinds of checks of the first models, then of the others."""
    names = [*FIRST, *(name for name in tiny_models.names() if name not in FIRST)]
    cases = [(name, data_type, tool) for name in names for data_type in (FLOAT, FLOAT16)
             for tool in TOOLS]
    for name in names:
        for data_type in (FLOAT, FLOAT16):
            model = tiny_models.load(name, data_type, context.work / "tiny")
            context.program.partition(model.file, bundle_of(context, name, data_type), 1,
                                      model.shapes(), context.timeout())
    run_each(context, cases, lambda case: run_model(context, sanitizer, *case), kept=100,
             what=lambda case: f"{case[0]}, {NAMES[case[1]]}, {case[2]}")


def bundle_of(context, name, data_type):
    return context.work / f"sanitized-{name}-{NAMES[data_type]}"


def run_model(context, sanitizer, name, data_type, tool):
    model = tiny_models.load(name, data_type, context.work / "tiny")
    return context.program.finish(
        "run", "--dir", bundle_of(context, name, data_type), *context.program.on_device("host"),
        *model.input_options, "--repeat", 2, under=sanitizer_command(sanitizer, tool),
        timeout=context.timeout())


def check_kernels(context, sanitizer):
    """Each test of kernels under memcheck, then under racecheck."""
    cases = [(name, tool) for tool in TOOLS[:2] for name in kernels.test_names(context)]
    run_each(context, cases, lambda case: kernels.run_unit_test(
        context, case[0], sanitizer_command(sanitizer, case[1])), kept=0,
        what=lambda case: f"'{case[0]}', {case[1]}")


def run_each(context, cases, run, kept, what):
    """Several at once while there is time, but for what is kept for others; skipped ones are one row."""
    def run_in_time(case):
        return None if context.is_late(15 + kept) else run(case)

    late = []
    with ThreadPoolExecutor(context.side_by_side()) as pool:
        for case, future in [(case, pool.submit(run_in_time, case)) for case in cases]:
            try:
                done = future.result()
                if done is None:
                    late.append(what(case))
                else:
                    judge(context.report, what(case), done)
            except Skip as reason:
                context.report.skip(what(case), reason)
            except Failure as failure:
                context.report.fail(what(case), failure)
    if late:
        context.report.skip(f"{len(late)} more, from {late[0]} on", "no time was left")


def judge(report, what, done):
    findings = findings_of(done.stdout + done.stderr)
    is_right = not findings.ours and not findings.not_shown and done.code == 0
    report.judge(what, "nothing in autopar, exit 0", f"{findings.text()}, exit {done.code}", is_right,
                 done.text())
