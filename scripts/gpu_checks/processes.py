"""Commands with a time limit that leave no process behind."""

import os
import shlex
import signal
import subprocess
from dataclasses import dataclass


class Failure(Exception):
    """What was checked did not work; the message is for the table."""


class Skip(Exception):
    """What cannot be checked here, and why."""


@dataclass(frozen=True)
class Finished:
    command: list
    code: int
    stdout: str
    stderr: str

    def text(self):
        return shlex.join(self.command)

    def last_line(self):
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1] if lines else "(it said nothing)"


def start(command, environment, **more):
    """A process that leads a group of its own, for `stop`."""
    return subprocess.Popen(
        list(map(str, command)), env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def stop(process):
    """Ends a process that `start` made and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def finish(process, timeout):
    """What it said. Throws Failure if it does not end in time."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failure(f"did not end within {timeout:.0f} s: {shlex.join(process.args)}") from None
    return Finished(process.args, process.returncode, stdout, stderr)


def run(command, environment, timeout):
    process = start(command, environment)
    try:
        return finish(process, timeout)
    finally:
        stop(process)
