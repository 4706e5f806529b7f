"""Starting autopar so that calls of the C library fail: tests/faults/README.md tells how."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from support import AUTOPAR

LIBRARY = os.environ["AUTOPAR_FAULT_LIBRARY"]


def environment(faults="", under=None, counts=None, trace=None, least_bytes=None, allocations=None):
    """The environment of a process to which `faults` happen ("write:3:ENOSPC,sync:1:kill")."""
    variables = {
        "LD_PRELOAD": LIBRARY,
        "AUTOPAR_FAULTS": faults,
        "AUTOPAR_FAULT_UNDER": under,
        "AUTOPAR_FAULT_COUNTS": counts,
        "AUTOPAR_FAULT_TRACE": trace,
        "AUTOPAR_FAULT_BYTES": least_bytes,
        "AUTOPAR_FAULT_PLACES": allocations,
        # Sanitizers want to be loaded first, but need not be.
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
    }
    told = {name: str(value) for name, value in variables.items() if value}
    return {**os.environ, **told}


def run(arguments, **how):
    """autopar with the arguments, finished, however it ended; `how` is environment's."""
    return subprocess.run(
        [AUTOPAR, *map(str, arguments)], env=environment(**how), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def stopped(arguments, **how):
    """autopar with the arguments, once it has been stopped by a fault ("mkdir:1:stop"); `resumed`
    lets it go on."""
    process = subprocess.Popen(
        [AUTOPAR, *map(str, arguments)], env=environment(**how), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        if process.poll() is not None:
            raise AssertionError(f"it was not stopped: {process.communicate()}")
        time.sleep(0.01)
    return process


def resumed(process):
    """The process that was stopped, finished."""
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def counts(file):
    """What the last process to end has counted, by kind."""
    return json.loads(file.read_text().splitlines()[-1])
