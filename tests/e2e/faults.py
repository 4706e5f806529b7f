"""Starting autopar so that calls of the C library fail: tests/faults/README.md tells how."""

import json
import os
import subprocess

from support import AUTOPAR

LIBRARY = os.environ["AUTOPAR_FAULT_LIBRARY"]


def environment(faults="", under=None, counts=None, trace=None, least_bytes=None):
    """The environment of a process to which `faults` happen ("write:3:ENOSPC,sync:1:kill")."""
    variables = {
        "LD_PRELOAD": LIBRARY,
        "AUTOPAR_FAULTS": faults,
        "AUTOPAR_FAULT_UNDER": under,
        "AUTOPAR_FAULT_COUNTS": counts,
        "AUTOPAR_FAULT_TRACE": trace,
        "AUTOPAR_FAULT_BYTES": least_bytes,
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


def counts(file):
    """What the last process to end has counted, by kind."""
    return json.loads(file.read_text().splitlines()[-1])
