"""What is told beside results: how much, where, in which colours, and by which rank."""

import os
import pty
import re
import unittest

from launched import Started, run_ranks, torchrun
from support import AUTOPAR, Model, TemporaryFolderTest, autopar
from test_rendezvous import free_port


class LogTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)
        self.run_it = ("run", "--dir", self.bundle, *self.model.input_options())

    def both_places(self, *options):
        """What a run says with these options before and behind the command."""
        before = autopar(*options, *self.run_it)
        behind = autopar(*self.run_it, *options)
        self.assertEqual(before.stdout, behind.stdout)
        self.assertNotEqual(before.stdout, "")
        return before.stderr, behind.stderr

    def test_quiet_has_results_alone(self):
        self.assertIn("communication of a run", autopar(*self.run_it).stderr)
        self.assertEqual(self.both_places("--quiet"), ("", ""))
        self.assertEqual(self.both_places("--log-level", "error"), ("", ""))
        self.assertEqual(self.both_places("--log-level=warning"), ("", ""))

    def test_errors_are_told_in_any_case(self):
        for options in (["--quiet"], ["--log-level", "error"], ["--log-file", self.tmp / "log"]):
            done = autopar("inspect", self.tmp / "nothing", *options, expect=1)
            self.assertRegex(done.stderr, r"^error: [^\n]*nothing[^\n]*\n$")

    def test_a_log_file_is_added_to(self):
        log = self.tmp / "log"
        self.assertEqual(self.both_places("--log-file", log), ("", ""))
        lines = log.read_text().splitlines()
        self.assertEqual(sum("communication of a run" in line for line in lines), 2)
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ")
        autopar("run", "--dir", self.tmp / "nothing", "--log-file", log, expect=1)
        last = log.read_text().splitlines()[-1]
        self.assertRegex(last, r"^[-\d]+ [\d:.]+ error: .*nothing")

    def test_wrong_options(self):
        done = autopar(*self.run_it, "--log-level", "loud", expect=1)
        self.assertEqual(done.stderr, "error: --log-level loud: give debug, info, warning or error\n")
        done = autopar(*self.run_it, "--log-file", self.tmp / "no" / "log", expect=1)
        self.assertRegex(done.stderr, r"^error: --log-file .*/no/log cannot be written: No such file")
        self.assertFalse((self.tmp / "no").exists())

    def test_each_line_of_a_rank_has_its_number(self):
        port = free_port()
        log = self.tmp / "log"
        two = lambda rank: torchrun(rank, 2, port)  # noqa: E731
        ranks = run_ranks(two, 2, *self.run_it)
        for code, _, stderr in run_ranks(two, 2, *self.run_it, "--log-file", log):
            self.assertEqual((code, stderr), (0, ""))
        for rank, (code, _, stderr) in enumerate(ranks):
            self.assertEqual(code, 0, stderr)
            for line in stderr.splitlines():
                self.assertRegex(line, rf"^(info: )?\[rank {rank}\] ")
        for line in log.read_text().splitlines():
            self.assertRegex(line, r"^\S+ \S+ (info: )?\[rank [01]\] ")
        self.assertIn("communication of a run", ranks[0][2])
        self.assertEqual(len(log.read_text().splitlines()),
                         sum(len(ranks[rank][2].splitlines()) for rank in (0, 1)))  # fmt: skip

    def test_so_has_an_error_before_the_run(self):
        wrong = (*self.run_it, "--repeat", "0", "--timeout", "0")
        for variables, options in ((torchrun(1, 2, 1), ()),
                                   ({}, ("--rank", 1, "--rendezvous", "127.0.0.1:1"))):  # fmt: skip
            with Started() as started:
                started.start([AUTOPAR, *wrong, *options], variables)
                [(code, _, stderr)] = started.finish()
            self.assertEqual(code, 1)
            self.assertRegex(stderr, r"^error: \[rank 1\] --repeat 0.*\nerror: \[rank 1\] --timeout 0.*\n$")
        self.assertRegex(autopar(*wrong, expect=1).stderr, r"^error: --repeat")

    def at_a_terminal(self, **variables):
        master, terminal = pty.openpty()
        with Started() as started:
            process = started.start([AUTOPAR, "inspect", self.tmp / "nothing"],
                                    {"TERM": "xterm", **variables}, stderr=terminal)  # fmt: skip
            os.close(terminal)
            told = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # it has ended
                    break
                told += part
                if not part:
                    break
            process.wait()
        os.close(master)
        return told.decode()

    def test_colours_are_for_terminals_that_want_them(self):
        self.assertRegex(self.at_a_terminal(), re.compile("\x1b.*error: ", re.S))
        self.assertRegex(self.at_a_terminal(NO_COLOR=""), re.compile("\x1b.*error: ", re.S))
        plain = self.at_a_terminal(NO_COLOR="1")
        self.assertIn("error: ", plain)
        self.assertNotIn("\x1b", plain)


if __name__ == "__main__":
    unittest.main()
