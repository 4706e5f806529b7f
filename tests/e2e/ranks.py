"""Ranks as processes of their own that meet at a rendezvous, some of which are stopped or killed."""

import os
import subprocess
import time
from pathlib import Path

import faults
from support import AUTOPAR
from test_rendezvous import free_port


def state(pid):
    """As /proc tells it: T is stopped; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


class World:
    """Processes of `autopar run`, by rank; leaves none behind."""

    def __init__(self, bundle, size, *options):
        self.bundle, self.size = bundle, size
        self.options = [*options, "--threads", 1]
        self.place = f"127.0.0.1:{free_port()}"
        self.ranks = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, rank, *more, env=None):
        command = [AUTOPAR, "run", "--dir", self.bundle, "--rank", rank, "--rendezvous",
                   self.place, *self.options, *more]  # fmt: skip
        self.ranks[rank] = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=env or os.environ)  # fmt: skip

    def start_all(self, more=lambda rank: (), env=lambda rank: None):
        for rank in range(self.size):
            self.start(rank, *more(rank), env=env(rank))

    def wait_until_hit(self, rank):
        """Until the rank is stopped or has ended."""
        process = self.ranks[rank]
        while process.poll() is None and state(process.pid) != "T":
            time.sleep(0.01)

    def finish(self, rank, timeout=600):
        """The exit code and what it wrote to standard error."""
        _, err = self.ranks[rank].communicate(timeout=timeout)
        return self.ranks[rank].returncode, err

    def finish_all(self):
        return [self.finish(rank) for rank in range(self.size)]


def counted(bundle, size, folder, more, *options):
    """By rank: how many calls of each kind an undisturbed run makes."""
    files = [folder / f"counts{rank}" for rank in range(size)]
    with World(bundle, size, *options) as world:
        world.start_all(more, lambda rank: faults.environment(counts=files[rank]))
        for code, err in world.finish_all():
            if code != 0:
                raise AssertionError(err)
    return [faults.counts(file) for file in files]
