"""A loss of power at any time leaves a place as it was, or with the new contents, but no mixture; and
what else it leaves, the next command removes.

The model of what a disk may have then is told in power_loss.py.
"""

import os
import random
import shutil
import tempfile
import unittest
from pathlib import Path

import faults
from places import MODEL, Places, bundle_of, contents, describe, partition
from power_loss import Disk, states_after_loss, write_state
from support import autopar

DRAWN_OF_A_POINT = 400 if os.environ.get("AUTOPAR_ALL_FAULTS") else 12
MOST_NEXT_COMMANDS = 1000 if os.environ.get("AUTOPAR_ALL_FAULTS") else 25


class ModelTest(unittest.TestCase):
    """The model itself finds what is not synced."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "root"
        self.root.mkdir()
        (self.root / "x").write_bytes(b"old")

    def states_of(self, *calls):
        """The contents of x that a loss after the calls may leave."""
        disk = Disk(self.root)
        for call in calls:
            disk.apply(call)
        return {state.get("x") for state in disk.losses(random.Random(1), 50)}

    def test_a_name_that_outruns_its_bytes(self):
        x, new = str(self.root / "x"), str(self.root / "new")
        create = {"op": "create", "path": new, "file": 7}
        write = {"op": "write", "file": 7, "offset": 0, "data": b"new!".hex()}
        sync = {"op": "sync", "file": 7}
        rename = {"op": "rename", "from": new, "to": x}
        sync_folder = {"op": "sync", "file": self.root.stat().st_ino}
        self.assertEqual(
            self.states_of(create, write, rename),
            {b"old", b"new!", b"", b"ne", b"ne\0\0", b"\0\0\0\0"},
        )
        self.assertEqual(self.states_of(create, write, sync, rename), {b"old", b"new!"})
        self.assertEqual(self.states_of(create, write, sync, rename, sync_folder), {b"new!"})

    def test_a_removal_that_outruns_the_rename_before_it(self):
        (self.root / "old").mkdir()
        (self.root / "old" / "part").write_bytes(b"")
        (self.root / "new").mkdir()
        old, new = str(self.root / "old"), str(self.root / "new")
        disk = Disk(self.root)
        disk.apply({"op": "exchange", "from": new, "to": old})
        disk.apply({"op": "remove", "path": new + "/part"})
        states = disk.losses(random.Random(1), 50)
        self.assertTrue(any("old" in state and "new" in state and "old/part" not in state
                            and "new/part" not in state for state in states))  # fmt: skip


class PowerLossTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tmp = Path(folder.name)
        _, cls.old_bundle = bundle_of(cls.tmp, 3)
        _, cls.new_bundle = bundle_of(cls.tmp, 2)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.places = Places(self.folder)

    def losses(self, arguments, place, always):
        """Runs the command once; what `place` may have, by name, and the states that a loss of
        power may leave."""
        self.places.reset()
        old = contents(place) if place.exists() else "nothing"
        disk = Disk(self.places.work)
        trace = self.folder / "trace"
        done = faults.run(arguments, faults=always, under=self.places.work, trace=trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        known = {"old": old, "new": contents(place)}
        self.assertNotEqual(known["old"], known["new"])
        calls = trace.read_text().splitlines()
        return known, list(states_after_loss(disk, calls, DRAWN_OF_A_POINT))

    def lose_power(self, arguments, place, check_next, always="", may_be_absent=False):
        """Looks at each state that a loss of power may leave: `place` has its old contents or the
        new ones. check_next() runs the next command in some."""
        known, states = self.losses(arguments, place, always)
        old = known["old"]
        seen = {"old": 0, "new": 0, "nothing": 0}
        with_next = set(random.Random(1).sample(range(len(states)), min(len(states), MOST_NEXT_COMMANDS)))
        for i, (call, state) in enumerate(states):
            shutil.rmtree(self.places.work)
            write_state(state, self.places.work)
            left = describe(place, known)
            with self.subTest(after=str(call)[:200]):
                allowed = {"old", "new"} if old != "nothing" and not may_be_absent else set(seen)
                self.assertIn(left, allowed, sorted(state))
                if left == "nothing" and may_be_absent:
                    left = self.put_back(place, known)
            seen[left] += 1
            if i in with_next:
                with self.subTest(next_after=str(call)[:200]):
                    check_next()
        self.assertEqual(left, "new", "after all calls the new contents are on the disk")
        self.assertGreater(seen["new"], 0)
        self.assertGreater(seen["nothing" if old == "nothing" else "old"], 4)

    def put_back(self, place, known):
        autopar("inspect", place)
        left = describe(place, known)
        self.assertEqual(left, "old")
        return left

    def partition_again(self):
        out = self.places.work / "out"
        autopar(*partition(MODEL, out, 2, "--force"))
        self.assertEqual(self.places.names(), {"model", "out"})
        autopar("run", "--dir", out, "--random-inputs", 1)  # checks digests

    def test_partition(self):
        out = self.places.work / "out"
        self.lose_power(partition(self.places.model, out, 2), out, self.partition_again)

    def test_partition_that_replaces(self):
        shutil.copytree(self.old_bundle, self.places.start / "out")
        out = self.places.work / "out"
        self.lose_power(partition(self.places.model, out, 2, "--force"), out, self.partition_again)

    def test_partition_that_replaces_by_steps(self):
        shutil.copytree(self.old_bundle, self.places.start / "out")
        out = self.places.work / "out"
        self.lose_power(
            partition(self.places.model, out, 2, "--force"), out, self.partition_again,
            always="exchange:1:EINVAL+,noreplace:1:EINVAL+", may_be_absent=True,
        )  # fmt: skip

    def test_syncs_are_what_holds_it(self):
        """A disk that ignores syncs may leave mixtures, which the model finds."""
        shutil.copytree(self.old_bundle, self.places.start / "out")
        out = self.places.work / "out"
        command = partition(self.places.model, out, 2, "--force")
        known, states = self.losses(command, out, "sync:1:EINVAL+")
        left = set()
        for _, state in states:
            shutil.rmtree(self.places.work)
            write_state(state, self.places.work)
            left.add(describe(out, known))
        self.assertIn("damaged", left)

    def test_run_with_outputs(self):
        shutil.copytree(self.new_bundle, self.places.start / "out")
        results = self.places.work / "results"
        (self.places.start / "results").mkdir()
        (self.places.start / "results" / "y.npy").write_bytes(b"old")
        arguments = ["run", "--dir", self.places.work / "out", "--random-inputs", 1,
                     "--output-dir", results]  # fmt: skip

        def again():
            autopar(*arguments)
            self.assertEqual([path.name for path in results.iterdir()], ["y.npy"])

        self.lose_power(arguments, results / "y.npy", again)

    def test_calibrate(self):
        (self.places.start / "devices").mkdir()
        device = self.places.work / "devices" / "device.json"
        self.lose_power(
            ["calibrate", "--quick", "--ranks", 1, "--out", device], device, lambda: None
        )


if __name__ == "__main__":
    unittest.main()
