"""What the benchmarks share: describing the machine, and timing processes from outside."""

import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
AUTOPAR = os.environ.get("AUTOPAR", SOURCE / "build/release/bin/autopar")


def machine():
    model = next(
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB, {platform.system()} {platform.machine()}"


def run_json(*arguments):
    """Runs autopar and parses what it prints."""
    done = subprocess.run(
        [str(AUTOPAR), *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def autopar(*arguments):
    subprocess.run([str(AUTOPAR), *map(str, arguments)], check=True, capture_output=True, text=True)


def resident_peak_of(process):
    """Bytes of the largest resident set of a process so far, given its number or "self"."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0  # it has ended


# The system knows the peak of a process that has ended, which whoever looks at it now and then may
# miss. It counts what the process had before it became the command, too: so the command is started
# by an interpreter without packages, which is smaller than autopar.
LAUNCHER = """
import os, sys
child = os.fork()
if child == 0:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def peak_resident(command):
    """Bytes of the largest resident set of a command."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, command)],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} has failed")
    return int(done.stdout)


def timed(command):
    """Seconds that a command takes, and its largest private memory (RssAnon) in bytes."""
    peak = 0
    start = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    status = Path(f"/proc/{process.pid}/status")

    def watch():
        nonlocal peak
        while process.poll() is None:
            try:
                for line in status.read_text().splitlines():
                    if line.startswith("RssAnon"):
                        peak = max(peak, int(line.split()[1]) * 1024)
            except OSError:
                return
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    watcher.join()
    if code != 0:
        raise RuntimeError(f"{command} ended with {code}")
    return seconds, peak


def median(values):
    return statistics.median(values)
