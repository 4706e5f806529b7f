"""Every kernel is launched by some test: ONNX's node tests, the tests of kernels that every device
runs, and tests of the types that these leave out. What none launched is told by name."""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from . import kernel_names, processes
from .context import SOURCE
from .processes import Failure, Skip

TITLE = "Kernels"
MAKERS = SOURCE / "tests" / "conformance"
ARCHIVE = "onnx_tests.tar.xz"  # in the package
# Sums that ONNX's tests expect rounded to half precision after each step, as NumPy does it; every
# GPU adds them up in float32.
ROUNDED_OTHERWISE = re.compile(r"test_attention_4d_\w*fp16(_expanded)?")
# Whose kernels run loops that count rounds in 31 or 64 bits.
WITH_LOOPS = ("channel_normalization_test", "convolution_test", "data_movement_test",
              "normalization_test", "pooling_test", "rare_operators_test", "resize_test",
              "unusual_types_test")
A_PROCESS = 100  # tests, on GPUs: making a context takes longer than a test
# Compiled, but no launch can reach them.
UNREACHABLE = {
    "gather<uint4, ElementTargets>": "what is gathered by element has 8 bytes at most",
    "replace<uint4, ElementTargets>": "what is replaced by element has 8 bytes at most",
}
SUMMARY = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def make_tests(context):
    """The package's, or made here of the installed onnx package."""
    folder = context.work / "onnx_tests"
    if folder.exists():
        return folder
    archive = context.program.folder / ARCHIVE
    if archive.exists():
        shutil.unpack_archive(archive, folder)
        return folder
    for maker, into in (("make_onnx_tests.py", folder), ("make_typed_tests.py", folder / "typed")):
        done = processes.run([sys.executable, MAKERS / maker, into], os.environ, 300)
        if done.code != 0:
            raise Failure(f"{maker}: {done.last_line()}")
    return folder


def failures_of(text):
    """What onnx_conformance says has failed: test, and what is wrong with it."""
    return {name: f"{outcome}: {why}" for outcome, name, why in
            re.findall(r"^  (\w+) (\w+): (.*)$", text, re.MULTILINE)}


def run_conformance(context, what, folders, environment=None):
    jobs = 2 if context.self_test else max(2, min(8, (os.cpu_count() or 2) // 2))
    done = context.program.finish(
        *folders, "--device", context.program.device, "--jobs", jobs, "--timeout", 60,
        "--tests-a-process", A_PROCESS, timeout=context.timeout(300), program="onnx_conformance",
        environment=environment)
    summary = SUMMARY.search(done.stdout)
    if not summary:
        raise Failure(f"exit {done.code}: {done.last_line()} ({done.text()})")
    failed = {name: why for name, why in failures_of(done.stdout).items()
              if not ROUNDED_OTHERWISE.fullmatch(name)}
    told = "; ".join(f"{name} {why}" for name, why in list(failed.items())[:10])
    context.report.judge(what, "all, but attention that is expected as of half sums",
                         f"{summary[0]}{': ' * bool(failed)}{told}", not failed, done.text())


def test_names(context, files=()):
    """Names of all tests, or of those of some source files."""
    tags = ("--filenames-as-tags", ",".join(f"[#{file}]" for file in files)) if files else ()
    catch = context.program.finish("--libidentify", timeout=60, program="gpu_kernel_test").stdout
    is_version_2 = re.search(r"^version:\s+2", catch, re.M)
    names_alone = ("--list-test-names-only",) if is_version_2 else ("--list-tests", "--verbosity", "quiet")
    done = context.program.finish(*names_alone, *tags, timeout=60, program="gpu_kernel_test")
    names = [line for line in done.stdout.splitlines() if line.strip()]
    if not names:
        raise Failure(f"exit {done.code}: {done.last_line()} ({done.text()})")
    return names


def run_unit_test(context, name, under=(), environment=None):
    """Runs a test in a process of its own, so that none can take others with it."""
    escaped = re.sub(r"([\\,\[\]*])", r"\\\1", name)
    return context.program.finish(escaped, timeout=context.timeout(200), program="gpu_kernel_test",
                                  under=under, environment=environment)


def check_unit_tests(context, what, files=(), environment=None):
    """Runs the kernels' tests of every device: each against loops in double."""
    names, wrong, command = test_names(context, files), [], ""
    with ThreadPoolExecutor(2 if context.self_test else context.side_by_side()) as pool:
        futures = {name: pool.submit(run_unit_test, context, name, (), environment)
                   for name in names}
        for name, future in futures.items():
            try:
                done = future.result()
                command = done.text()
                if done.code != 0:
                    wrong.append(f"'{name}' exit {done.code}: {failed_line(done.stdout)}")
            except Failure as failure:
                wrong.append(f"'{name}' {failure}")
    context.report.judge(what, f"{len(names)} tests", "; ".join(wrong[:10]) or "all", not wrong,
                         command)


def failed_line(text):
    """Where Catch says that something is not as expected."""
    lines = text.splitlines()
    places = [i for i, line in enumerate(lines) if "FAILED:" in line]
    return " ".join(lines[places[0]:places[0] + 5]) if places else (lines or ["nothing said"])[-1]


def not_launched(every, launched):
    """Short names of those that no section launched, without those that none could."""
    missing = kernel_names.demangled(set(every) - set(launched)).values()
    return sorted(set(map(kernel_names.short, missing)) - set(UNREACHABLE))


def tell_launched(context):
    """Tells the kernels that all sections so far have launched."""
    every = kernel_names.kernels_of(context.program.plugins / "libautopar_cuda.so")
    missing = not_launched(every, context.launched_in())
    told = "; ".join([f"{len(every) - len(missing) - len(UNREACHABLE)}", *missing])
    context.report.judge(
        "kernels that some test launched",
        f"all {len(every)} but {len(UNREACHABLE)} that no launch reaches", told, not missing)


def check(context):
    if context.program.device != "cuda":
        raise Skip("for GPUs alone")
    tests = make_tests(context)
    onnx_own = [tests / kind for kind in ("node", "simple")]
    long = {**context.program.environment, "AUTOPAR_LONG_LOOPS": "1"}
    steps = (
        ("ONNX's own tests", lambda what: run_conformance(context, what, onnx_own)),
        ("tests of further types",
         lambda what: run_conformance(context, what, [tests / "typed"])),
        ("tests of kernels against loops", lambda what: check_unit_tests(context, what)),
        ("ONNX's and further types, with rounds counted in 64 bits",
         lambda what: run_conformance(context, what, [*onnx_own, tests / "typed"], long)),
        ("tests of kernels, with rounds counted in 64 bits",
         lambda what: check_unit_tests(context, what, WITH_LOOPS, long)),
    )
    for what, step in steps:
        if context.is_late(10):
            context.report.skip(what, "no time was left")
            continue
        try:
            step(what)
        except Failure as failure:
            context.report.fail(what, failure)
    tell_launched(context)
