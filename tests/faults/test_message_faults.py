"""Ranks whose calls on sockets fail, move less than they were asked to, or are the last that they
make: what may be done again is, with the right outputs; else all ranks end with one line each.

AUTOPAR_ALL_FAULTS=1 makes every call of either rank fail in every way; else some are drawn, the same
each time.
"""

import os
import random
import unittest

import faults
from ranks import World, counted
from support import Model, TemporaryFolderTest

# What happens to a call of a kind; "short" moves half of what it could.
HARMLESS = {
    "send": ("EINTR", "EAGAIN", "short"),
    "receive": ("EINTR", "EAGAIN", "short"),
    "poll": ("EINTR",),
}
HARMFUL = {
    "connect": ("EMFILE", "ENETUNREACH", "kill"),
    "send": ("ECONNRESET", "EPIPE", "ENOBUFS", "kill", "torn"),
    "receive": ("ECONNRESET", "ETIMEDOUT", "kill"),
    "poll": ("ENOMEM", "kill"),
}
KILLED = -9
RANKS = 2
TIMEOUT = 20


class MessageFaultsTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, RANKS)
        self.options = (*self.model.input_options(), "--timeout", TIMEOUT)
        self.out = self.tmp / "out"

    def outputs(self, rank):
        return ("--output-dir", self.out) if rank == 0 else ()

    def faults_of(self, actions, most):
        calls = counted(self.bundle, RANKS, self.tmp, self.outputs, *self.options)
        planned = [
            (rank, kind, n, action)
            for rank in range(RANKS)
            for kind, of_kind in actions.items()
            for n in range(1, calls[rank][kind] + 1)
            for action in of_kind
        ]
        self.assertGreater(len(planned), 100)
        if not os.environ.get("AUTOPAR_ALL_FAULTS"):
            planned = random.Random(1).sample(planned, min(most, len(planned)))
        return planned

    def finished(self, faulty, fault):
        """What the ranks come to, and whether the fault came."""
        counts = self.tmp / "counts"
        counts.unlink(missing_ok=True)
        with World(self.bundle, RANKS, *self.options) as world:
            world.start_all(
                self.outputs,
                lambda rank: faults.environment(fault, counts=counts) if rank == faulty else None)  # fmt: skip
            ended = world.finish_all()
        has_met = not counts.exists() or faults.counts(counts)["met"] > 0
        return ended, has_met

    def check_outputs(self):
        self.assertLess(self.model.error_of(self.out), 1e-4)
        for file in self.out.iterdir():
            file.unlink()

    def test_what_may_be_done_again_is(self):
        planned = self.faults_of(HARMLESS, 40)
        met = 0
        for rank, kind, n, action in planned:
            with self.subTest(rank=rank, kind=kind, n=n, action=action):
                ended, has_met = self.finished(rank, f"{kind}:{n}:{action}")
                met += has_met
                for code, error in ended:
                    self.assertEqual(code, 0, error)
                    self.assertNotIn("error", error)
                self.check_outputs()
        # How often ranks poll depends on how soon the others are.
        self.assertGreater(met, 0.5 * len(planned))

    def test_what_may_not_ends_all_ranks_with_a_line(self):
        planned = self.faults_of(HARMFUL, 50)
        failed = 0
        for rank, kind, n, action in planned:
            with self.subTest(rank=rank, kind=kind, n=n, action=action):
                ended, _ = self.finished(rank, f"{kind}:{n}:{action}")
                codes = [code for code, _ in ended]
                failed += any(codes)
                if not any(codes):  # it was not needed any more, or was tried again
                    self.check_outputs()
                for each, (code, error) in enumerate(ended):
                    lines = [line for line in error.splitlines() if line.startswith("error: ")]
                    self.assertIn(code, (0, 1, KILLED) if each == rank else (0, 1), error)
                    self.assertEqual(len(lines), 1 if code == 1 else 0, error)
                    self.assertNotIn("internal error", error)
                    if code == 1 and each != rank:
                        self.assertRegex(error, rf"rank(\(s\))? {rank}\b")
        self.assertGreater(failed, len(planned) // 3)


if __name__ == "__main__":
    unittest.main()
