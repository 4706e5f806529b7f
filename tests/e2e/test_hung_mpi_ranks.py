"""A rank under mpirun that is stopped or killed anywhere ends all others, and a timeout names it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import faults
from ranks import state
from support import AUTOPAR, Model, TemporaryFolderTest, waits_of
from test_failing_ranks import ranks_started_by
from test_hung_ranks import SLACK, TIMEOUT, places

# Gives the faults to one rank alone.
START = """
[ "$OMPI_COMM_WORLD_RANK" = "$FAULTY" ] && export LD_PRELOAD=$LIBRARY AUTOPAR_FAULTS=$FAULT
[ "$OMPI_COMM_WORLD_RANK" = "$FAULTY" ] && export AUTOPAR_FAULT_COUNTS=$COUNTS
exec "$@"
"""


class Process:
    """A process that is not a child."""

    def __init__(self, pid):
        self.pid = pid

    def poll(self):
        return None if state(self.pid) else 0


def rank_of(pid):
    while True:  # a process that has only just begun tells no variables yet
        for variable in Path(f"/proc/{pid}/environ").read_text().split("\0"):
            if variable.startswith("OMPI_COMM_WORLD_RANK="):
                return int(variable.split("=")[1])
        time.sleep(0.01)


class HungMpiRanksTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 3)

    def start(self, *options, faulty="", fault="", counts=""):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "-np", 3, "sh", "-c", START, "sh", AUTOPAR,
                   "run", "--dir", self.bundle, "--random-inputs", 1, "--threads", 1, "--timeout",
                   TIMEOUT, "--output-dir", self.tmp / "out", *options]  # fmt: skip
        # Else Open MPI's mpirun may wait for a lock in memory that the rank held when it died.
        told = {"PMIX_MCA_gds": "hash", "FAULTY": faulty, "FAULT": fault, "COUNTS": counts, "LIBRARY": faults.LIBRARY}
        return subprocess.Popen(
            list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **{name: str(value) for name, value in told.items()}})  # fmt: skip

    def finish(self, launcher):
        """The exit code, the lines of errors, and how long it took until no rank ran any more.

        Open MPI's mpirun sometimes locks itself up when ranks end while MPI starts
        (PMIx_server_finalize): it is ended here when all its ranks have."""
        begin = time.monotonic()
        running = begin
        while launcher.poll() is None:
            pids = ranks_started_by(launcher.pid)
            if not pids or any(state(pid) not in ("Z", "T", "") for pid in pids):
                running = time.monotonic()
            self.assertLess(running - begin, TIMEOUT + SLACK, "ranks are left")
            if time.monotonic() - running > 10:
                launcher.kill()
                for pid in pids:
                    if state(pid) == "T":
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        _, err = launcher.communicate()
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        return launcher.returncode, errors, running - begin

    def check_errors(self, errors, faulty):
        """At least one names the rank; before MPI has begun nobody knows which it is."""
        self.assertNotEqual(errors, [])
        for error in errors:
            if "MPI_Init did not end" in error or "MPI did not" in error:
                self.assertNotIn(f"error: [rank {faulty}]", error)
                continue
            self.assertEqual(re.findall(r"rank\(s\) ([\d, ]*\d)", error), [str(faulty)], error)

    def counts_of(self, rank):
        file = self.tmp / "counts"
        code, errors, _ = self.finish(self.start(faulty=rank, counts=file))
        self.assertEqual((code, errors), (0, []))
        return faults.counts(file)

    def disturb_all(self, action, most):
        worst = 0.0
        hit = 0
        for rank in range(3):
            counts = self.counts_of(rank)
            for kind in ("connect", "open", "map"):
                for number in places(counts.get(kind, 0), most):
                    with self.subTest(rank=rank, kind=kind, number=number, of=counts[kind]):
                        launcher = self.start(faulty=rank, fault=f"{kind}:{number}:{action}")
                        code, errors, seconds = self.finish(launcher)
                        worst = max(worst, seconds)
                        if code == 0:
                            continue
                        hit += 1
                        if action == "stop":
                            self.check_errors(errors, rank)
        print(f"{hit} ranks, the last {worst:.1f} s after its start with a timeout of {TIMEOUT} s",
              file=sys.stderr)  # fmt: skip
        self.assertGreater(hit, 9)

    def test_a_stopped_rank_is_named(self):
        self.disturb_all("stop", 3)

    def test_a_killed_rank_ends_all(self):
        self.disturb_all("kill", 3)

    def test_a_rank_that_is_stopped_during_runs_is_named(self):
        for faulty in range(3):
            with self.subTest(rank=faulty):
                launcher = self.start("--repeat", 10**8)
                while len(pids := ranks_started_by(launcher.pid)) < 3:
                    self.assertIsNone(launcher.poll(), "mpirun ended before it was disturbed")
                    time.sleep(0.01)
                by_rank = {rank_of(pid): pid for pid in pids}
                while waits_of(Process(by_rank[faulty])) < 1000:
                    time.sleep(0.05)
                    self.assertIsNone(launcher.poll(), "mpirun ended before it was disturbed")
                os.kill(by_rank[faulty], signal.SIGSTOP)
                code, errors, seconds = self.finish(launcher)
                print(f"ended after {seconds:.1f} s", file=sys.stderr)
                self.assertNotEqual(code, 0)
                self.check_errors(errors, faulty)
                for pid in pids:
                    while state(pid) not in ("", "Z"):
                        time.sleep(0.01)
