"""Each call of the C library that a command makes fails, is cut short, or is the process' last: the
command ends with one line or does its work, a place has its old contents or its new ones, and the
next command leaves nothing else behind.

Memory is refused once at each place: where allocations are made by the same calls. Nine of ten
places are in ONNX's registry, which is made at first; late ones are all others.

AUTOPAR_ALL_FAULTS=1 makes every call fail in every way, and refuses memory at every place, which
takes most of a day; AUTOPAR_ALL_FAULTS=late leaves the registry's places out, which takes half an hour;
AUTOPAR_ALL_FAULTS=0.01 draws one of a hundred. Else fewer are drawn, the same each time.
"""

import os
import random
import shutil
import tempfile
import unittest
from pathlib import Path

import faults
from places import Places, bundle_of, contents, describe, partition
from support import autopar

ACTIONS = {
    "open": ("EMFILE", "EINTR", "kill"),
    "read": ("EIO", "EINTR", "short", "kill"),
    "write": ("ENOSPC+", "EIO", "EINTR", "short", "torn", "kill"),
    "sync": ("EIO", "EINTR", "kill"),
    "close": ("EIO", "kill"),
    "rename": ("EIO", "kill"),
    "noreplace": ("EIO", "kill"),
    "exchange": ("EIO", "kill"),
    "unlink": ("EIO", "kill"),
    "mkdir": ("ENOSPC", "kill"),
    "chmod": ("EPERM", "kill"),
    "lock": ("ENOLCK", "kill"),
    "map": ("ENOMEM", "kill"),
}
MEMORY = {"allocate": ("ENOMEM",), "pages": ("ENOMEM",)}
DEADLY = ("kill", "torn")
KILLED = -9
ALL_FAULTS = os.environ.get("AUTOPAR_ALL_FAULTS", "")


def sample(faults, most):
    return random.Random(1).sample(faults, min(most, len(faults)))


def drawn(planned, is_late, most):
    """Those to try, of (kind, number, action): where there are early ones, half of them are."""
    late = [fault for fault in planned if is_late(fault)]
    if ALL_FAULTS == "late":
        return late
    if ALL_FAULTS:
        return sample(planned, int(float(ALL_FAULTS) * len(planned)))
    early = sample([fault for fault in planned if not is_late(fault)], most // 2)
    return early + sample(late, most - len(early))


def error_lines(done):
    """The compiler's own library for threads ends the process by itself where it gets no memory."""
    return [line for line in done.stderr.splitlines() if line.startswith(("error", "libgomp: Out of memory"))]


def sweeps_itself(fault, done):
    """Whether the command must have removed what it had begun, and not the next one. A process that
    gets no memory may be at its end where it cleans up."""
    return done.returncode != KILLED and not fault.startswith(("unlink", *MEMORY))


class FaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tmp = Path(folder.name)
        cls.old, cls.old_bundle = bundle_of(cls.tmp, 3)
        cls.new, cls.new_bundle = bundle_of(cls.tmp, 2)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.places = Places(folder.name)
        self.counts = Path(folder.name) / "counts"
        self.allocations = Path(folder.name) / "allocations"

    def run_with(self, arguments, fault, least_bytes=None, allocations=None):
        self.counts.unlink(missing_ok=True)
        return faults.run(
            arguments, faults=fault, under=self.places.work.resolve(), counts=self.counts,
            least_bytes=least_bytes, allocations=allocations,
        )  # fmt: skip

    def walk(self, arguments, check, always="", most=150, kinds=tuple(ACTIONS)):
        """Runs the command with each fault, and with each refusal of memory; check(fault, done)
        looks at what it left."""
        actions = {kind: ACTIONS[kind] for kind in kinds}
        self.walk_calls(arguments, check, actions, always, most)
        if "map" in kinds:
            self.walk_calls(arguments, check, MEMORY, always, most, least_bytes=1)

    def numbers_of_calls(self, kinds):
        """By kind, the calls that the command made: of the heap, the first at each place."""
        calls = faults.counts(self.counts)
        numbers = {kind: range(1, calls[kind] + 1) for kind in kinds}
        if "allocate" in kinds:
            numbers["allocate"] = sorted(map(int, self.allocations.read_text().split()))
        return numbers

    def walk_calls(self, arguments, check, actions, always, most, least_bytes=None):
        self.places.reset()
        self.allocations.unlink(missing_ok=True)
        done = self.run_with(arguments, always, least_bytes, self.allocations)
        self.assertEqual(done.returncode, 0, done.stderr)
        check("none", done)
        numbers = self.numbers_of_calls(actions)
        planned = [(kind, n, action) for kind, ways in actions.items() for n in numbers[kind] for action in ways]
        self.assertGreater(len(planned), 20)
        first_late = 0.7 * max(numbers.get("allocate", [0]))
        planned = drawn(planned, lambda fault: fault[0] != "allocate" or fault[1] > first_late, most)
        met = 0
        for kind, n, action in planned:
            fault = f"{kind}:{n}:{action}"
            with self.subTest(fault=fault):
                self.places.reset()
                told = ",".join(filter(None, [always, fault]))
                done = self.run_with(arguments, told, least_bytes)
                met += self.check_end(done, action)
                if kind in MEMORY:
                    self.check_memory(done)
                check(fault, done)
        # Threads may open files in another order, but no fault is planned in vain. How much memory
        # calibrate takes depends on times.
        self.assertGreater(met, (0.9 if actions is not MEMORY else 0.3) * len(planned))

    def check_end(self, done, action):
        """A result or one line, unless it was killed; whether the fault came."""
        if action in DEADLY and done.returncode == KILLED:
            return True
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual(len(error_lines(done)), done.returncode, done.stderr)
        self.assertNotIn("internal error", done.stderr)
        if not self.counts.exists():  # it has ended where no exception may pass
            return True
        return action not in DEADLY and faults.counts(self.counts)["met"] > 0

    def check_memory(self, done):
        """What was refused is named, and no library tells of it, too."""
        if done.returncode == 1:
            self.assertIn("memory", error_lines(done)[0].lower())
        for text in ("terminate", "Schema error", "***"):
            self.assertNotIn(text, done.stderr)

    def check_bundle(self, fault, done, allowed):
        """The place has a whole bundle of those allowed, and nothing else is beside it once another
        command has gone by."""
        out = self.places.work / "out"
        known = {"old": self.old, "new": self.new}
        left = describe(out, known)
        if done.returncode == 0:
            self.assertEqual(left, "new", fault)
        self.assertIn(left, allowed, fault)
        if sweeps_itself(fault, done):
            self.assertLessEqual(self.places.names(), {"model", "out"}, fault)
        if left == "nothing" and any(name.startswith("out.replaced") for name in self.places.names()):
            autopar("inspect", out)
            self.assertEqual(describe(out, known), "old", fault)
        autopar(*partition(self.places.model, out, 2, "--force"))
        self.assertEqual(describe(out, known), "new", fault)
        self.assertEqual(self.places.names(), {"model", "out"}, fault)

    def test_partition(self):
        out = self.places.work / "out"
        self.walk(
            partition(self.places.model, out, 2),
            lambda fault, done: self.check_bundle(fault, done, ("nothing", "new")),
        )

    def test_partition_that_replaces(self):
        shutil.copytree(self.old_bundle, self.places.start / "out")
        out = self.places.work / "out"
        self.walk(
            partition(self.places.model, out, 2, "--force"),
            lambda fault, done: self.check_bundle(fault, done, ("old", "new")),
        )

    def test_partition_that_replaces_by_steps(self):
        """As on file systems that cannot exchange names, nor refuse to replace."""
        shutil.copytree(self.old_bundle, self.places.start / "out")
        out = self.places.work / "out"
        self.walk(
            partition(self.places.model, out, 2, "--force"),
            lambda fault, done: self.check_bundle(fault, done, ("old", "new", "nothing")),
            always="exchange:1:EINVAL+,noreplace:1:EINVAL+",
            kinds=("rename", "sync", "unlink", "chmod", "lock", "mkdir", "write"),
        )

    def check_files(self, fault, done, files, old):
        """Each file has its old contents or its new ones, and nothing is beside them after the next
        run."""
        for file, new in files.items():
            known = {"new": new, **({"old": old[file]} if file in old else {})}
            left = describe(file, known)
            self.assertIn(left, {"new", "old" if file in old else "nothing"}, (fault, file.name))
            if done.returncode == 0:
                self.assertEqual(left, "new", (fault, file.name))

    def test_run_with_outputs(self):
        shutil.copytree(self.new_bundle, self.places.start / "out")
        results = self.places.work / "results"
        (self.places.start / "results").mkdir()
        (self.places.start / "results" / "y.npy").write_bytes(b"old")
        arguments = ["run", "--dir", self.places.work / "out", "--random-inputs", 1,
                     "--output-dir", results]  # fmt: skip
        self.places.reset()
        autopar(*arguments)
        files = {results / "y.npy": contents(results / "y.npy")}

        def check(fault, done):
            self.check_files(fault, done, files, {results / "y.npy": b"old"})
            autopar(*arguments)
            self.assertEqual([path.name for path in results.iterdir()], ["y.npy"], fault)
            self.check_files(fault, done, files, {})

        self.walk(arguments, check, most=80)

    def test_traces(self):
        trace = self.places.work / "traces" / "trace.json"
        (self.places.start / "traces").mkdir()
        arguments = ["plan", self.places.model, "--ngpus", 2, "--simulate", trace]
        self.places.reset()
        autopar(*arguments)
        new = contents(trace)

        def check(fault, done):
            self.check_files(fault, done, {trace: new}, {})
            autopar(*arguments)
            self.assertEqual([path.name for path in trace.parent.iterdir()], [trace.name], fault)

        self.walk(arguments, check, most=60)

    def test_calibrate(self):
        device = self.places.work / "devices" / "device.json"
        (self.places.start / "devices").mkdir()
        arguments = ["calibrate", "--quick", "--ranks", 1, "--out", device]

        def check(fault, done):
            if device.exists():
                self.assertEqual(contents(device)["name"], "calibrated", fault)
            if sweeps_itself(fault, done):
                # The file has its place before the folder is synced, which may fail.
                allowed = ([device.name],) if done.returncode == 0 else ([], [device.name])
                self.assertIn([path.name for path in device.parent.iterdir()], allowed, fault)

        self.walk(arguments, check, most=12)


if __name__ == "__main__":
    unittest.main()
