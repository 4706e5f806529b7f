"""A rank that is stopped or killed anywhere ends all others by the timeout, with its number.

The preloaded library of tests/faults stops it at the n-th call of a kind: before the rendezvous,
while it loads, before and inside of collectives, and where outputs are gathered.
"""

import re
import sys
import time

import faults
from ranks import World, counted
from support import Model, TemporaryFolderTest

TIMEOUT = 3
# What a busy machine may take beside the timeout; the tests print what it took.
SLACK = 60
FILES = ("open", "read", "map")
MESSAGES = ("send", "receive", "poll")


def places(count, most, first=1):
    """So many calls of a kind, spread from the first to the last one."""
    if count < first:
        return []
    return sorted({first + (count - first) * i // (most - 1) for i in range(most)})


class HungRanksTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 3)
        self.options = ("--random-inputs", 1, "--repeat", 3, "--timeout", TIMEOUT)

    def outputs(self, rank):
        return ("--output-dir", self.tmp / "out") if rank == 0 else ()

    def check_error(self, error, of, faulty):
        """One line, which accuses the faulty rank and no other one, not even its own. One who is
        killed between its connection and its first word is also counted as a stranger."""
        stranger = re.compile("warning: .* turned away")
        error = "\n".join(line for line in error.splitlines() if not stranger.match(line))
        self.assertTrue(error.startswith("error: "), error)
        self.assertEqual(len(error.splitlines()), 1, error)
        self.assertNotIn("this rank failed", error)
        accused = {int(number) for numbers in re.findall(r"rank\(s\) ([\d, ]*\d)", error)
                   for number in numbers.split(", ")}  # fmt: skip
        if "did not come to" in error:  # on a busy machine others may be late, too, who say so
            self.assertIn(faulty, accused, error)
            return
        self.assertLessEqual(accused, {faulty}, error)
        without_witness = re.sub(r"rank \d+ (lost the connection to|waited too long for)", "", error)
        mentioned = accused | {int(number) for number in re.findall(r"rank (\d+)", without_witness)}
        self.assertEqual(mentioned - {of}, {faulty}, error)

    def disturb(self, faulty, fault):
        """How many of the others named the rank, and the seconds until all of them had ended."""
        with World(self.bundle, 3, *self.options) as world:
            world.start_all(
                self.outputs,
                lambda rank: faults.environment(fault) if rank == faulty else None)  # fmt: skip
            world.wait_until_hit(faulty)
            hit = time.monotonic()
            named = 0
            for rank in {0, 1, 2} - {faulty}:
                code, error = world.finish(rank, timeout=TIMEOUT + SLACK)
                if code == 0:  # it needed nothing of the other any more
                    continue
                if "nobody answers" in error and faulty != 0:  # rank 0 had given up before
                    continue
                self.assertEqual(code, 1, error)
                self.check_error(error, rank, faulty)
                named += 1
            return named, time.monotonic() - hit

    def disturb_all(self, action, most):
        counts = counted(self.bundle, 3, self.tmp, self.outputs, *self.options)
        named = []
        worst = 0.0
        for rank, of_rank in enumerate(counts):
            points = [("connect", 1)]  # it never comes
            for kind in FILES:
                points += [(kind, number) for number in places(of_rank.get(kind, 0), most)]
            for kind in MESSAGES:
                points += [(kind, number) for number in places(of_rank.get(kind, 0), most + 1)]
            for kind, number in points:
                with self.subTest(rank=rank, kind=kind, number=number, of=of_rank[kind]):
                    by_others, seconds = self.disturb(rank, f"{kind}:{number}:{action}")
                    named.append(by_others)
                    worst = max(worst, seconds)
        print(f"{len(named)} ranks, of which {named.count(2)} were named by both others, the "
              f"last after {worst:.1f} s with a timeout of {TIMEOUT} s", file=sys.stderr)  # fmt: skip
        self.assertGreater(named.count(2), len(named) // 2)

    def test_a_stopped_rank_is_named(self):
        self.disturb_all("stop", 3)

    def test_a_killed_rank_is_named(self):
        self.disturb_all("kill", 5)
