"""A part of the check: its sections one after another, each with its share of the time."""

import tempfile
from pathlib import Path

from . import (
    correctness, cost_model, faults, kernel_names, kernels, large_models, launches, machine, nccl,
    products, sanitizers, speed)
from .context import SOURCE, Clock, Context
from .exports import Exports, missing_packages
from .parts import PARTS
from .processes import Skip
from .program import Program, unpacked
from .report import Report

SECTIONS = {
    "correctness": correctness, "nccl": nccl, "kernels": kernels, "sanitizers": sanitizers,
    "launches": launches, "faults": faults, "speed": speed, "products": products, "cost": cost_model,
}


def check_section(context, section):
    """A section's failure is a row of its own, and the next one goes on."""
    context.report.start(section.TITLE)
    try:
        section.check(context)
    except Skip as reason:
        context.report.skip(section.TITLE, reason)
    except Exception as error:
        context.report.fail(section.TITLE, f"{type(error).__name__}: {error}")


def start_exports(options, chosen, work):
    """Only speed needs the large models; None where they cannot be made."""
    if "speed" not in chosen or missing_packages():
        return None
    models = large_models.SMALL if options.self_test else large_models.MODELS
    largest_first = sorted(models.values(), key=lambda model: not model.is_hollow)
    return Exports(largest_first, work / "exports")


def stop_torch(context):
    for torch in context.torch_sides.values():
        torch.stop()


def write(context, part):
    """After each section, so that what was measured outlives a crash or a limit."""
    context.report.write()
    plugin = context.program.plugins / "libautopar_cuda.so"
    every = kernel_names.kernels_of(plugin) if plugin.exists() else set()
    launched_in = context.launched_in()
    texts = {name: kernel_names.short(text)
             for name, text in kernel_names.demangled(every | set(launched_in)).items()}
    context.report.write_part(part, {
        "all": sorted(texts[name] for name in every),
        "launched_in": {texts[name]: sections for name, sections in sorted(launched_in.items())}})


def make_program(options, work):
    folder = unpacked(options.package, work)
    plugins = folder / "lib" / "emulated" if options.self_test == "emulation" else None
    return Program(folder, "cpu" if options.self_test == "cpu" else "cuda", plugins)


def run_part(options, arguments, part):
    """Whether all of it is as it should be."""
    clock = Clock(options.time_limit)
    chosen = [name for name in PARTS[part] if not options.only or name in options.only]
    with tempfile.TemporaryDirectory(prefix="gpu_check-", dir=options.work) as folder:
        work = Path(folder)
        machine.print_free_space(work)
        program = make_program(options, work)
        short = {f"{program.file.parent}/": "", f"{work}/": "", f"{SOURCE}/": ""}
        file = options.out / f"gpu-part{part}.md"
        report = Report(file, machine.head(program, arguments), short,
                        judges_times=not options.self_test)
        exports = start_exports(options, chosen, work)
        context = Context(program, report, clock, work, bool(options.self_test), exports,
                          options.hold)
        try:
            if exports:
                speed.start(context)
            for position, name in enumerate(chosen):
                kept = sum(PARTS[part][later] for later in chosen[position + 1:])
                context.start_section(name, kept)
                check_section(context, SECTIONS[name])
                write(context, part)
                if name == "speed":
                    stop_torch(context)
        finally:
            stop_torch(context)
            if exports:
                exports.stop()
    print(f"\nWritten to {file} and {file.with_suffix('.json').name}")
    return not report.has_failed()
