"""A rank that fails or dies ends all ranks, with exit 1 and the cause, and nobody waits for ever."""

import os
import signal
import subprocess
import time
from pathlib import Path

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, mpirun


def ranks_started_by(launcher):
    """Process ids of the launcher's autopar processes."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue  # it ended meanwhile
        if name == Path(AUTOPAR).name and int(rest.split()[1]) == launcher:
            found.append(int(status.parent.name))
    return found


class FailingRanksTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 3)

    def test_a_killed_process_ends_the_others(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "-np", "3", AUTOPAR, "run", "--dir",
                   str(self.bundle), "--random-inputs", "1", "--repeat", "100000000"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as launcher:
            while len(ranks := ranks_started_by(launcher.pid)) < 3:
                self.assertIsNone(launcher.poll(), "mpirun ended before it was disturbed")
                time.sleep(0.01)
            time.sleep(0.5)  # well into the runs; earlier is as good a test
            os.kill(ranks[1], signal.SIGKILL)
            launcher.communicate(timeout=300)
            self.assertNotEqual(launcher.returncode, 0)
        while any(Path(f"/proc/{rank}").exists() for rank in ranks):  # ctest has the deadline
            time.sleep(0.01)

    def test_a_shard_that_one_rank_cannot_read_fails_all(self):
        data = self.bundle / "rank2.data"
        changed = bytearray(data.read_bytes())
        changed[100] ^= 1
        data.write_bytes(changed)
        arguments = ("run", "--dir", self.bundle, "--random-inputs", 1)
        for done in (autopar(*arguments, expect=1), mpirun(3, *arguments, expect=1)):
            errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertIn("rank2.data", errors[0])
