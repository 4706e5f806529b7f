"""NCCL with all ranks on one GPU: collectives by themselves, models, a rank that is killed.

NCCL takes two ranks for two only where they are on different machines or GPUs. NCCL_HOSTID names the
machine: each process gets one of its own, and what they send goes over TCP on the loopback device, as
between machines. Processes take turns on the GPU, so that times mean nothing.
"""

import os
import re
import secrets
import signal
import time

from . import collective_cases, tiny_models
from .faults import free_port, is_clear
from .processes import Failure, Skip
from .tensors import FLOAT

TITLE = "NCCL"
WORLDS = (2, 4)
EAGER, CAPTURED = 1, 3  # runs: the first of a process goes step by step, later ones are its graph
MANY_RUNS = 1_000_000
TIMEOUT = 30  # seconds, for --timeout
PROMPTLY = 20  # seconds in which ranks end after one of them was killed
# What versions of NCCL say where they see through this.
REFUSALS = re.compile(r"Duplicate GPU|Multiple Ranks are using the same GPU|have the same GPU")

SECRET = secrets.token_hex(32)  # what ranks prove to each other that they know


def environment_of(program, rank):
    """A rank's environment, as if it were on a machine of its own."""
    return {**program.environment, "NCCL_HOSTID": f"autopar-{rank}", "NCCL_NET": "Socket",
            "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_MNNVL_ENABLE": "0", "AUTOPAR_SECRET": SECRET}


class World:
    """Processes of one program, a rank each, on one GPU."""

    def __init__(self, context):
        self.context, self.program = context, context.program

    def start(self, ranks, arguments, program=None):
        """`arguments(rank, port)` are those of one rank."""
        port = free_port()
        return [self.program.start(*arguments(rank, port), program=program,
                                   environment=environment_of(self.program, rank))
                for rank in range(ranks)]

    def finish(self, started, most=120):
        try:
            return [process.finish(self.context.timeout(most)) for process in started]
        finally:
            for process in started:
                process.stop()

    def run(self, ranks, arguments, program=None):
        """All that each rank said. Throws Skip where NCCL refuses, else Failure for what failed."""
        finished = self.finish(self.start(ranks, arguments, program))
        failed = [done for done in finished if done.code != 0]
        for done in failed:
            if REFUSALS.search(done.stderr):
                raise Skip(f"not possible here: {done.last_line()}")
        if failed:
            raise Failure(f"exit {failed[0].code}: {failed[0].last_line()} ({failed[0].text()})")
        return finished


def check_cases(context, what, ranks, cases, stages=1):
    """Cases by themselves, one after another in the same processes."""
    folder = context.work / "collectives" / what.replace(", ", "-").replace(" ", "-")
    folders = [folder / str(index) for index in range(len(cases))]
    for case, place in zip(cases, folders):
        case.write(place)

    def arguments(rank, port):
        meeting = ("--port", port) if ranks > 1 else ()
        return (*folders, "--ranks", ranks, "--rank", rank, *meeting, "--stages", stages,
                "--repeat", CAPTURED, "--timeout", TIMEOUT, *context.program.on_device("nccl"),
                "--gpu", 0)

    done = World(context).run(ranks, arguments, program="run_shards")
    wrong = [f"{case.name} ({', '.join(faults)})" for case, place in zip(cases, folders)
             if (faults := case.faults(place))]
    command = done[0].text().replace(" ".join(map(str, folders)), f"{folder}/*")
    context.report.judge(what, f"{len(cases)} as NumPy has them, step by step and captured",
                         "; ".join(wrong) or "all", not wrong, command)


def check_collectives(context, ranks):
    check_cases(context, f"collectives, {ranks} rank{'s' * (ranks > 1)}", ranks,
                list(collective_cases.of_world(ranks)))
    if ranks == 1:
        return
    check_cases(context, f"messages between two stages, {ranks} ranks", ranks,
                list(collective_cases.of_stages(ranks)), stages=2)
    if ranks == 4:
        check_cases(context, "groups along two mesh axes, 2x2 ranks", ranks,
                    list(collective_cases.of_two_axes()))


def ways(ranks):
    """How a model is split: what it is called, and options of `partition`."""
    yield f"{ranks} ranks", ()
    if ranks == 4:
        yield "2x2 ranks", ("--mesh", "2x2")
    yield f"2 stages of {ranks // 2}", ("--stages", 2, "--mesh", ranks // 2)


def check_model(context, name, ranks):
    model = tiny_models.load(name, FLOAT, context.work / "tiny")
    for way, options in ways(ranks):
        what = f"{name}, {way}"
        if context.is_late(20):
            raise Skip(f"no time was left from '{what}' on")
        bundle = context.work / "nccl" / what.replace(", ", "-").replace(" ", "-")
        info = context.program.partition(model.file, bundle, ranks, model.shapes(),
                                         context.timeout(), *options)
        errors, miscounted, command = {}, [], ""
        for repeat, how in ((EAGER, "step by step"), (CAPTURED, "captured")):
            out = bundle.with_name(f"{bundle.name}-{repeat}")

            def arguments(rank, port):
                return ("run", "--dir", bundle, *context.program.on_device("nccl"), "--gpu", 0,
                        "--rank", rank, "--rendezvous", f"127.0.0.1:{port}", "--timeout", TIMEOUT,
                        "--repeat", repeat, *model.input_options, "--output-dir", out, "--json")

            done = World(context).run(ranks, arguments)[0]
            errors[how], command = model.error_of(out), done.text()
            if done.json()["collectives"] != info["profiles"][0]["collectives"]:
                miscounted.append(f"bytes were not as predicted {how}")
        told = ", ".join(f"{error:.1e} {how}" for how, error in errors.items())
        is_right = max(errors.values()) <= model.tolerance and not miscounted
        context.report.judge(what, f"at most {model.tolerance:.1e}",
                             "; ".join([told, *miscounted]), is_right, command)


def check_killed_rank(context, ranks):
    """The others end, each with one line that names the rank, long before the timeout."""
    model = tiny_models.load("mlp-dynamo", FLOAT, context.work / "tiny")
    bundle = context.work / "nccl" / f"killed-{ranks}"
    context.program.partition(model.file, bundle, ranks, model.shapes(), context.timeout())

    def arguments(rank, port):
        return ("run", "--dir", bundle, *context.program.on_device("nccl"), "--gpu", 0, "--rank",
                rank, "--rendezvous", f"127.0.0.1:{port}", "--timeout", 2 * PROMPTLY, "--repeat",
                MANY_RUNS, *model.input_options)

    world = World(context)
    started = world.start(ranks, arguments)
    time.sleep(2 if context.self_test else 10)
    if not any(rank.has_ended() for rank in started):
        os.kill(started[1].pid, signal.SIGKILL)
    begin = time.monotonic()
    finished = world.finish(started, most=4 * PROMPTLY)
    seconds = time.monotonic() - begin
    others = [done for rank, done in enumerate(finished) if rank != 1]
    unclear = [done for done in others if not is_clear(done, ["rank 1"])]
    shown = (unclear or others)[0]
    context.report.judge(
        f"rank 1 of {ranks} is killed during runs",
        f"the others end within {PROMPTLY} s, each with one line that names it",
        f"{seconds:.1f} s, exit {shown.code}: {shown.last_line()}",
        not unclear and seconds <= PROMPTLY, shown.text())


def try_all(context, what, check, *arguments):
    """One that fails leaves the others to be checked; whether it was possible at all."""
    try:
        check(context, *arguments)
    except Skip as reason:
        context.report.skip(what, reason)
        return False
    except Exception as failure:
        context.report.fail(what, failure)
    return True


def check(context):
    if context.program.device != "cuda":
        raise Skip("for GPUs alone")
    try_all(context, "a rank alone", check_collectives, 1)
    names = tiny_models.names() if not context.self_test else ["gpt2-dynamo", "mlp-torchscript"]
    for ranks in WORLDS:
        if context.is_late(20):
            context.report.skip(f"{ranks} ranks", "no time was left")
        elif try_all(context, f"collectives, {ranks} ranks", check_collectives, ranks):
            try_all(context, f"a killed rank of {ranks}", check_killed_rank, ranks)
            for name in names:
                if not try_all(context, f"{name}, {ranks} ranks", check_model, name, ranks):
                    break
    if not context.self_test:
        check_further_models(context)


def check_further_models(context):
    """Checks further models on two ranks, as time allows."""
    for name in tiny_models.further_names():
        if not try_all(context, f"{name} and later ones, 2 ranks", check_model, name, 2):
            break
