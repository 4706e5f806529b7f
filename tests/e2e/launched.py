"""Processes that a launcher would start: in an environment that has its variables and no other's."""

import os
import subprocess

from support import AUTOPAR

# What this test itself may have been started with, by Slurm or Kubernetes.
LAUNCHERS = ("AUTOPAR_", "OMPI_COMM_WORLD_", "PMI", "SLURM_", "TORCHELASTIC_")
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
             "JOB_COMPLETION_INDEX", "NO_COLOR")  # fmt: skip
KEPT = ("AUTOPAR_SOURCE", "AUTOPAR_PLUGIN_DIR")


def environment(**variables):
    own = {name: value for name, value in os.environ.items()
           if name in KEPT or not (name.startswith(LAUNCHERS) or name in VARIABLES)}
    return {**own, **{name: str(value) for name, value in variables.items()}}


def torchrun(rank, size, port):
    return {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port}


class Started:
    """Processes that end with the `with`."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, command, variables, stderr=subprocess.PIPE):
        process = subprocess.Popen(
            [str(word) for word in command], env=environment(**variables), text=True,
            stdout=subprocess.PIPE, stderr=stderr)  # fmt: skip
        self.processes.append(process)
        return process

    def finish(self):
        """Of each its exit code, standard output and standard error."""
        told = [process.communicate(timeout=300) for process in self.processes]
        return [(process.returncode, *each) for process, each in zip(self.processes, told)]


def run_ranks(variables_of, size, *arguments):
    """Starts `size` processes of autopar, each with its own variables, and waits for them."""
    with Started() as ranks:
        for rank in range(size):
            ranks.start([AUTOPAR, *arguments, "--threads", 1], variables_of(rank))
        return ranks.finish()
