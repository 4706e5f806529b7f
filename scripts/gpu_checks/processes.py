"""Commands with a time limit that leave no process behind."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass


class Failure(Exception):
    """What was checked did not work; the message is for the table."""


class Skip(Exception):
    """What cannot be checked here, and why."""


class ShortTime(float):
    """Seconds, fewer than a command may take: those that are left of its section."""

    def too_late(self, what):
        return Skip(f"no time was left: {what}")


def too_late(timeout, what):
    """The exception for what did not come in time: a command's own fault, or the section's end."""
    return timeout.too_late(what) if isinstance(timeout, ShortTime) else Failure(what)


@dataclass(frozen=True)
class Finished:
    command: list
    code: int
    stdout: str
    stderr: str

    def text(self):
        return shlex.join(self.command)

    def json(self):
        return json.loads(self.stdout)

    def last_line(self):
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1] if lines else "(it said nothing)"


def kill_group(process):
    """Ends a subprocess that leads a session of its own, and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Process:
    """A command that runs. What it says goes into files, so that it never waits for a reader."""

    def __init__(self, command, environment):
        self.command = list(map(str, command))
        self._said = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]
        self._process = subprocess.Popen(
            self.command, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=self._said[0], stderr=self._said[1])

    @property
    def pid(self):
        return self._process.pid

    def has_ended(self):
        return self._process.poll() is not None

    def finish(self, timeout):
        """Waits for its end. Throws Failure, or Skip where the section's time is over, if that does
        not come in time; nothing is left then."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise too_late(
                timeout, f"did not end within {timeout:.0f} s: {shlex.join(self.command)}") from None
        for said in self._said:
            said.seek(0)
        stdout, stderr = (said.read() for said in self._said)
        return Finished(self.command, self._process.returncode, stdout, stderr)

    def stop(self):
        """Ends it and all that it started; nothing can be read of it any more."""
        kill_group(self._process)
        for said in self._said:
            said.close()


def run(command, environment, timeout):
    process = Process(command, environment)
    try:
        return process.finish(timeout)
    finally:
        process.stop()
