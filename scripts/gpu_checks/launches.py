"""After its first run a bundle is one graph launch, without an allocation or a wait inside it."""

import csv
import io
import shutil
from collections import Counter
from pathlib import Path

from . import processes, tiny_models
from .processes import Failure, Skip
from .tensors import FLOAT

TITLE = "One launch"
FEWER, MORE = 10, 30  # runs; what differs between the two is what runs cost, not starting up
GRAPH_LAUNCH = "cudaGraphLaunch"
FORBIDDEN = ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaMallocHost", "cudaDeviceSynchronize")


def calls_by_name(text):
    """Of `nsys stats --report cuda_api_sum --format csv`, names without their version's suffix."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if "Num Calls" in line), None)
    if begin is None:
        raise Failure("nsys gave no table of calls")
    calls = Counter()
    for row in csv.DictReader(io.StringIO("\n".join(lines[begin:]))):
        if row.get("Name") and row.get("Num Calls"):
            calls[row["Name"].split("_v")[0]] += int(row["Num Calls"].replace(",", ""))
    return calls


def calls_a_run(fewer, more, runs):
    """What `runs` more runs added, a run."""
    return {name: (more[name] - fewer[name]) / runs for name in more if more[name] != fewer[name]}


def count_calls(context, nsys, bundle, options, repeat):
    trace = context.work / f"calls-{repeat}"
    done = context.program.finish(
        "run", "--dir", bundle, *context.program.on_device("host"), *options, "--repeat", repeat,
        under=[nsys, "profile", "--trace", "cuda", "--force-overwrite", "true", "--output", trace],
        timeout=context.timeout())
    if done.code != 0:
        raise Failure(f"nsys: {done.last_line()}")
    stats = processes.run(
        [nsys, "stats", "--report", "cuda_api_sum", "--format", "csv", f"{trace}.nsys-rep"],
        context.program.environment, context.timeout())
    return calls_by_name(stats.stdout), done.text()


def find_nsys():
    toolkit = sorted(Path("/opt/nvidia").glob("nsight-systems*/**/bin/nsys"))
    found = shutil.which("nsys") or next(map(str, toolkit), None)
    if found is None:
        raise Skip("nsys is not installed")
    return found


def tell_own_count(context, bundle, options):
    """What the program counts itself, where it does."""
    measured, command = context.program.run_json(
        "run", "--dir", bundle, *context.program.on_device("host"), *options, "--repeat", MORE,
        timeout=context.timeout())
    what, launches = "launches a run, as the program counts them", measured.get("launches_per_run")
    if launches is None:
        context.report.skip(what, "--json has no launches_per_run")
    else:
        context.report.judge(what, "1", launches, launches == [1], command)


def check(context):
    if context.program.device != "cuda":
        raise Skip("for GPUs alone")
    model = tiny_models.load("gpt2-dynamo", FLOAT, context.work / "tiny")
    bundle = context.work / "launches"
    context.program.partition(model.file, bundle, 1, model.shapes(), context.timeout())
    tell_own_count(context, bundle, model.input_options)
    nsys = find_nsys()
    fewer, _ = count_calls(context, nsys, bundle, model.input_options, FEWER)
    more, command = count_calls(context, nsys, bundle, model.input_options, MORE)
    a_run = calls_a_run(fewer, more, MORE - FEWER)
    told = ", ".join(f"{count:g} {name}" for name, count in sorted(a_run.items()))
    launches = a_run.get(GRAPH_LAUNCH, 0)
    context.report.judge("graph launches a run", "1", f"{launches:g}", launches == 1, command)
    allocations = sum(count for name, count in a_run.items() if name.startswith(FORBIDDEN))
    context.report.judge("allocations and waits for the whole device a run", "0",
                         f"{allocations:g}", allocations == 0, command)
    context.report.tell("all calls of a run, its inputs' copies included", told, command)
