"""Every sample model, in three types, on 1 to 4 ranks: values, bytes of communication, bits."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from . import tiny_models
from .processes import Skip
from .tensors import BFLOAT16, FLOAT, FLOAT16, NAMES

TITLE = "Correctness"
RANKS = (1, 2, 3, 4)


@dataclass
class Outcome:
    """What one model gave in one type."""

    errors: dict = field(default_factory=dict)  # by how it was run
    tolerance: float = 0.0
    miscounted: list = field(default_factory=list)  # runs whose bytes were not those predicted
    unequal: list = field(default_factory=list)  # runs that gave other bits the second time
    runs: int = 0
    command: str = ""


def same_bits(a, b):
    """Whether two folders of outputs hold the same bits."""
    files = sorted(file.name for file in a.iterdir())
    return files == sorted(file.name for file in b.iterdir()) and all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in files)


def check_model(context, name, data_type):
    folder = context.work / "correctness" / f"{name}-{NAMES[data_type]}"
    model = tiny_models.load(name, data_type, context.work / "tiny")
    outcome = Outcome(tolerance=model.tolerance)
    ways = [(ranks, "host") for ranks in RANKS]
    if context.program.device == "cuda":
        ways.append((1, "nccl"))
    for ranks, collectives in ways:
        if context.is_late():
            raise Skip("no time was left for all its runs")
        way = f"{ranks} rank{'s' * (ranks > 1)}, {collectives}"
        bundle = folder / f"bundle{ranks}"
        info = context.program.partition(model.file, bundle, ranks, model.shapes(),
                                         context.timeout(), "--force")
        outputs = []
        for repeat in (1, 3):  # the first run of a process is eager, the others replay its graph
            outputs.append(folder / f"out-{ranks}-{collectives}-{repeat}")
            measured, outcome.command = context.program.run_json(
                "run", "--dir", bundle, *context.program.on_device(collectives), "--repeat", repeat,
                *model.input_options, "--output-dir", outputs[-1], timeout=context.timeout())
            outcome.runs += 1
            if measured["collectives"] != info["profiles"][0]["collectives"]:
                outcome.miscounted.append(way)
        outcome.errors[way] = max(map(model.error_of, outputs))
        if not same_bits(*outputs):
            outcome.unequal.append(way)
    return outcome


def tell(report, what, outcome):
    worst = max(outcome.errors, key=outcome.errors.get)
    error = outcome.errors[worst]
    report.judge(
        what, f"{len(outcome.errors)} ways to run it: at most {outcome.tolerance:.1e}",
        f"{error:.1e} ({worst})", error <= outcome.tolerance, outcome.command)


def check(context):
    types = (FLOAT, FLOAT16, BFLOAT16)
    names = tiny_models.names()
    if context.self_test:
        names = ["llama-torchscript", "mlp-dynamo"]
    cases = [(name, data_type) for data_type in types for name in names]
    outcomes = {}
    with ThreadPoolExecutor(context.side_by_side()) as pool:
        futures = {case: pool.submit(check_model, context, *case) for case in cases}
        for (name, data_type), future in futures.items():
            what = f"{name}, {NAMES[data_type]}"
            try:
                outcomes[what] = future.result()
                tell(context.report, what, outcomes[what])
            except Skip as reason:
                context.report.skip(what, reason)
            except Exception as error:  # one model's failure leaves the others to be checked
                context.report.fail(what, error)
    runs = sum(outcome.runs for outcome in outcomes.values())
    for what, faults in (
        ("bytes of collectives counted as predicted", "miscounted"),
        ("the same bits from an eager run and replays of its graph", "unequal"),
    ):
        wrong = [f"{name} ({way})" for name, outcome in outcomes.items()
                 for way in getattr(outcome, faults)]
        context.report.judge(what, f"{runs} runs", ", ".join(wrong) or ("all" if runs else "none was made"), runs and not wrong)
