"""Ranks that were given different inputs or options say so, and none returns a mixture."""

import numpy as np

from ranks import World
from support import AUTOPAR, Model, TemporaryFolderTest, run


class AgreementTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 3)
        for name, value, rows in (("ones", 1, 5), ("twos", 2, 5), ("seven", 1, 7)):
            np.save(self.tmp / f"{name}.npy", np.full((rows, 48), value, "f"))

    def input(self, name):
        return ("--input", f"x={self.tmp / name}.npy")

    def cases(self):
        """Options of rank 2, of the others, and what is said."""
        seed = ("--random-inputs", 1)
        return [
            (("--random-inputs", 2), seed, "input 'x' differs between ranks 0 and 2"),
            (self.input("twos"), self.input("ones"), "input 'x' differs between ranks 0 and 2"),
            (self.input("seven"), self.input("ones"),
             "rank 2 was given input 'x' of float32 7x48, rank 0 input 'x' of float32 5x48"),
            ((*seed, "--steps", 4), (*seed, "--steps", 5),
             "rank 2 was given --steps 4, rank 0 --steps 5"),
            ((*seed, "--repeat", 7), seed, "rank 2 was given --repeat 7, rank 0 --repeat 1"),
            ((*seed, "--profile", self.tmp / "trace.json"), seed,
             "rank 2 was given --profile, rank 0 no --profile"),
            ((*seed, "--collectives", "host"), seed,
             "rank 2 was given --collectives host, rank 0 --collectives nccl"),
            ((*seed, "--device", "cpu"), seed, "rank 2 was given --device cpu, rank 0 --device auto"),
            ((*seed, "--shape-cache", "1MiB"), seed, "rank 2 was given --shape-cache 1048576"),
            ((*seed, "--timeout", 50), seed, "rank 2 was given --timeout 50, rank 0 --timeout 30"),
        ]  # fmt: skip

    def assert_says(self, errors, expected):
        for error in errors:
            self.assertIn(expected, error)
            self.assertTrue(error.startswith("error: "), error)
            self.assertEqual(len(error.splitlines()), 1, error)
        self.assertNotEqual(errors, [])

    def test_at_a_rendezvous_each_rank_says_it(self):
        for differing, usual, expected in self.cases():
            with self.subTest(expected), World(self.bundle, 3) as world:
                out = self.tmp / "out"
                world.start_all(lambda rank: (*(differing if rank == 2 else usual),
                                              "--output-dir", out))  # fmt: skip
                finished = world.finish_all()
                self.assertEqual([code for code, _ in finished], [1, 1, 1], finished)
                self.assert_says([error for _, error in finished], expected)
                self.assertFalse(out.exists())

    def mpirun(self, differing, usual):
        """Lines of errors of two ranks and a third one that has other arguments."""
        run_one = lambda options: ["-np", "1", AUTOPAR, *map(str, options)]  # noqa: E731
        rest = run_one(usual)
        rest[1] = "2"
        done = run("mpirun", "--allow-run-as-root", "--oversubscribe", *rest, ":",
                   *run_one(differing), expect=1)  # fmt: skip
        return [line for line in done.stderr.splitlines() if line.startswith("error: ")]

    def test_under_mpirun(self):
        command = ("run", "--dir", self.bundle)
        for differing, usual, expected in self.cases():
            with self.subTest(expected):
                errors = self.mpirun((*command, *differing), (*command, *usual))
                self.assert_says(errors, expected)

    def test_other_commands_and_bundles(self):
        seed = ("--random-inputs", 1)
        one = ("run", "--dir", self.bundle, *seed)
        errors = self.mpirun(("serve", "--dir", self.bundle), one)
        self.assert_says(errors, "rank 2 was given the command serve, rank 0 the command run")
        other = self.tmp / "other"
        Model("mlp-dynamo").partition(other, 3, "--memory", "device")
        errors = self.mpirun(("run", "--dir", other, *seed), one)
        self.assert_says(errors, "the bundle differs between ranks 0 and 2")
