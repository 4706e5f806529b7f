"""Ranks whose connections are cut, stalled, delayed or damaged on the way."""

import sys
import time

import numpy as np

from proxy import Proxy
from ranks import World
from support import Model, TemporaryFolderTest, autopar, waits_of

TIMEOUT = 4
SLACK = 60


class ProxyTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 3)

    def outputs(self, name):
        return lambda rank: ("--output-dir", self.tmp / name) if rank == 0 else ()

    def world(self, *options, timeout=TIMEOUT):
        return World(self.bundle, 3, "--random-inputs", 1, "--timeout", timeout, *options)

    def expected(self):
        out = self.tmp / "expected"
        autopar("run", "--dir", self.bundle, "--random-inputs", 1, "--output-dir", out)
        return np.load(out / "y.npy")

    def test_delays_change_nothing(self):
        expected = self.expected()
        with Proxy(delay=0.01) as proxy, self.world(timeout=60) as world:
            world.start_all(self.outputs("out"), lambda rank: proxy.redirected())
            for code, error in world.finish_all():
                self.assertEqual(code, 0, error)
            self.assertGreater(proxy.bytes, 1000, "the proxy was passed by")
        np.testing.assert_array_equal(np.load(self.tmp / "out" / "y.npy"), expected)

    def flipped(self, flip, *options):
        """What ranks come to where a bit of that byte is flipped on the way; whether one was."""
        with Proxy(flip=flip) as proxy, self.world(*options, timeout=20) as world:
            world.start_all(
                self.outputs("out"), lambda rank: proxy.redirected() if rank == 2 else None)  # fmt: skip
            return world.finish_all(), proxy.flips

    def check_flips(self, *options):
        expected = self.expected()
        with Proxy() as proxy, self.world(*options, timeout=20) as world:
            world.start_all(env=lambda rank: proxy.redirected() if rank == 2 else None)
            for code, error in world.finish_all():
                self.assertEqual(code, 0, error)
            total = proxy.bytes
        failed = 0
        for i in range(16):
            with self.subTest(byte=total * i // 16, of=total):
                ended, flips = self.flipped(total * i // 16, *options)
                self.assertEqual(flips, 1)
                failed += any(code for code, _ in ended)
                for code, error in ended:
                    lines = [line for line in error.splitlines() if line.startswith("error: ")]
                    self.assertIn(code, (0, 1), error)
                    self.assertEqual(len(lines), code, error)
                if ended[0][0] == 0:
                    np.testing.assert_array_equal(np.load(self.tmp / "out" / "y.npy"), expected)
        self.assertGreater(failed, 8)

    def test_flipped_bits_are_found(self):
        self.check_flips()

    def test_flipped_bits_are_found_by_tls(self):
        self.check_flips("--tls")

    def disturbed_in_runs(self, disturb):
        """What the ranks say, by rank, and the seconds until all have ended. Rank 2 alone is behind
        the proxy, with all that it has to do with the others."""
        with Proxy() as proxy, self.world("--repeat", 10**8) as world:
            world.start_all(env=lambda rank: proxy.redirected() if rank == 2 else None)
            for process in world.ranks.values():
                while waits_of(process) < 300:
                    self.assertIsNone(process.poll(), "a rank ended before it was disturbed")
                    time.sleep(0.05)
            disturb(proxy)
            begin = time.monotonic()
            finished = [world.finish(rank, timeout=2 * TIMEOUT + SLACK) for rank in range(3)]
            seconds = time.monotonic() - begin
        print(f"ended after {seconds:.1f} s", file=sys.stderr)
        for code, error in finished:
            self.assertEqual(code, 1, error)
            self.assertEqual(len(error.splitlines()), 1, error)
        return [error for _, error in finished]

    def test_cut_connections_are_named(self):
        errors = self.disturbed_in_runs(Proxy.cut)
        # Either end may be the first to tell the others that it lost the other.
        self.assertIn("rank 2", errors[0])
        self.assertIn("rank 2", errors[1])
        self.assertRegex(errors[2], "rank [01]")

    def test_stalled_connections_are_named(self):
        errors = self.disturbed_in_runs(Proxy.stall)
        for error in errors[:2]:
            self.assertRegex(error, r"rank\(s\) 2; they did not come|rank 2 waited too long for|"
                                    "waited too long for rank 2")
        self.assertRegex(errors[2], r"rank\(s\) (0|1|0, 1); they did not come|rank [01]")

    def test_a_connection_that_stalls_while_ranks_meet_ends_all(self):
        with Proxy() as proxy, self.world() as world:
            proxy.stall()
            world.start_all(env=lambda rank: proxy.redirected() if rank == 2 else None)
            for rank in range(3):
                code, error = world.finish(rank, timeout=2 * TIMEOUT + SLACK)
                self.assertEqual(code, 1, error)
                self.assertRegex(error, "rank 0" if rank == 2 else r"rank\(s\) 2 did not come")
