"""Ranks that are started by hand meet at --rendezvous and run as one; what goes wrong ends them all."""

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest.mock

import numpy as np

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, run, waits_of


def free_port():
    """A port below those that the system gives to clients, so that none takes it meanwhile."""
    for attempt in range(1000):
        port = 10000 + (os.getpid() * 131 + attempt * 17) % 20000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no port is free")


class RanksOfAWorld(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.meta = self.model.partition(self.bundle, 3)
        self.place = f"127.0.0.1:{free_port()}"
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, rank, *options, bundle=None):
        command = [AUTOPAR, "run", "--dir", bundle or self.bundle, "--rank", rank, "--rendezvous",
                   self.place, *(options or self.model.input_options())]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def wait_until_well_into_runs(self, ranks):
        """Each wait for another rank is a voluntary context switch; loading has few of them."""
        for rank in ranks:
            while waits_of(rank) < 1000:
                time.sleep(0.05)
                self.assertIsNone(rank.poll(), "a rank ended before it was disturbed")

    def finish(self, process, expect=0):
        """Its standard output, or its one line of error."""
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, expect, err)
        if expect == 0:
            return out
        self.assertTrue(err.startswith("error: "), err)
        self.assertEqual(len(err.splitlines()), 1, err)
        return err

    def assert_all_fail(self, processes, *parts):
        for process in processes:
            error = self.finish(process, expect=1)
            for part in parts:
                self.assertIn(part, error)


class RendezvousTest(RanksOfAWorld):
    def stages(self):
        """A bundle of three stages, one of the ranks each, and what it gives in one process."""
        bundle = self.tmp / "stages"
        self.meta = self.model.partition(bundle, 3, "--stages", 3, "--microbatches", 5)
        out = self.tmp / "in-one-process"
        autopar("run", "--dir", bundle, *self.model.input_options(), "--output-dir", out)
        self.assertLessEqual(self.model.error_of(out), 1e-4)
        return bundle

    def test_stages_give_the_predicted_bytes_and_the_output(self):
        bundle = self.stages()
        out = self.tmp / "out"
        options = (*self.model.input_options(), "--json", "--output-dir", out)
        ranks = [self.start(rank, *options, bundle=bundle) for rank in range(3)]
        measured = json.loads(self.finish(ranks[0]))
        for rank in ranks[1:]:
            self.finish(rank)
        self.assertLessEqual(self.model.error_of(out), 1e-4)
        self.assertEqual(measured["collectives"], self.meta["profiles"][0]["collectives"])

    def test_a_stage_that_dies_ends_the_others(self):
        bundle = self.stages()
        options = (*self.model.input_options(), "--repeat", 1_000_000)
        ranks = [self.start(rank, *options, bundle=bundle) for rank in range(3)]
        self.wait_until_well_into_runs(ranks)
        ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            self.assertIn("rank 1", self.finish(rank, expect=1))

    def test_ranks_give_what_one_process_gives(self):
        one = self.tmp / "one"
        autopar("run", "--dir", self.bundle, *self.model.input_options(), "--output-dir", one)
        many = self.tmp / "many"
        options = [*self.model.input_options(), "--output-dir", many, "--json", "--repeat", 3]
        ranks = [self.start(rank, *options) for rank in (2, 0, 1)]
        outputs = [self.finish(rank) for rank in ranks]
        self.assertEqual([outputs[0], outputs[2]], ["", ""], "rank 0 alone has results")
        measured = json.loads(outputs[1])
        self.assertEqual(measured["collectives"], self.meta["profiles"][0]["collectives"])
        self.assertEqual(len(measured["peak_bytes"]), 3)
        files = sorted(file.name for file in one.iterdir())
        self.assertEqual(files, sorted(file.name for file in many.iterdir()))
        for file in files:
            np.testing.assert_array_equal(np.load(one / file), np.load(many / file))

    def test_a_bundle_of_one_rank(self):
        single = self.tmp / "single"
        self.model.partition(single, 1)
        self.finish(self.start(0, bundle=single))

    def test_a_killed_rank_ends_the_others_which_name_it(self):
        options = ("--random-inputs", 1, "--repeat", 10**8, "--timeout", 3600)
        ranks = [self.start(r, *options) for r in range(3)]
        self.wait_until_well_into_runs(ranks)
        ranks[1].send_signal(signal.SIGKILL)
        self.assert_all_fail([ranks[0], ranks[2]], "rank 1")

    def test_a_stopped_rank_is_named_at_the_timeout(self):
        options = ("--random-inputs", 1, "--repeat", 10**8, "--timeout", 5)
        ranks = [self.start(r, *options) for r in range(3)]
        self.wait_until_well_into_runs(ranks)
        ranks[2].send_signal(signal.SIGSTOP)
        self.assert_all_fail(ranks[:2], "2")
        ranks[2].send_signal(signal.SIGCONT)
        self.assert_all_fail(ranks[2:], "rank 2")

    def test_a_shard_that_one_rank_cannot_read_fails_all(self):
        data = self.bundle / "rank2.data"
        changed = bytearray(data.read_bytes())
        changed[100] ^= 1
        data.write_bytes(changed)
        ranks = [self.start(r) for r in range(3)]
        self.assert_all_fail(ranks[2:], "rank2.data")
        self.assert_all_fail(ranks[:2], "another rank failed (rank 2)")

    def test_an_input_that_one_rank_does_not_have_fails_all(self):
        ranks = [self.start(0), self.start(1), self.start(2, "--timeout", 30)]
        self.assert_all_fail(ranks[2:], "no tensor for input")
        self.assert_all_fail(ranks[:2], "rank 2")

    def test_a_rank_that_never_comes_is_named_by_all(self):
        options = (*self.model.input_options(), "--timeout", 6)
        ranks = [self.start(rank, *options) for rank in (0, 2)]
        self.assert_all_fail(ranks, "rank(s) 1 did not come", self.place, "6 s")

    def test_two_with_one_number(self):
        ranks = [self.start(rank) for rank in (0, 2, 2)]
        self.assert_all_fail(ranks, "rank 2 was started twice")

    def test_nobody_at_the_rendezvous(self):
        options = (*self.model.input_options(), "--timeout", 1)
        self.assert_all_fail([self.start(1, *options)], "nobody answers at " + self.place)

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", int(self.place.split(":")[1])))
            other.listen()
            self.assert_all_fail([self.start(0)], self.place, "in use")

    def test_ranks_of_different_bundles(self):
        other = self.tmp / "other"
        self.model.partition(other, 4)
        with unittest.mock.patch.dict(os.environ, AUTOPAR_SECRET="known to all of the test"):
            self.assert_all_fail([self.start(0), self.start(1, bundle=other)],
                                 "rank 1 is one of 4 ranks", "rank 0 one of 3")
            self.model.partition(other, 3, "--memory", "device", "--force")
            self.assert_all_fail([self.start(0), self.start(1, bundle=other)],
                                 "rank 1 runs another bundle than rank 0")
        options = (*self.model.input_options(), "--timeout", 6)
        ranks = [self.start(0, *options), self.start(1, *options, bundle=other)]
        self.assert_all_fail(ranks[:1], "rank(s) 1, 2 did not come", "turned away")
        self.assert_all_fail(ranks[1:], "does not know the secret", "another bundle")

    def test_the_secret_lies_in_the_bundle_and_may_be_given(self):
        secret = self.bundle / "secret"
        self.assertEqual(secret.stat().st_mode & 0o777, 0o600)
        again = self.tmp / "again"
        self.model.partition(again, 3)
        self.assertNotEqual(secret.read_text(), (again / "secret").read_text())
        secret.rename(self.tmp / "moved")
        self.assert_all_fail([self.start(0)], str(secret), "AUTOPAR_SECRET", "--secret-file")
        options = (*self.model.input_options(), "--secret-file", self.tmp / "moved")
        for rank in [self.start(rank, *options) for rank in range(3)]:
            self.finish(rank)
        secret.write_text("short\n")
        self.assert_all_fail([self.start(0)], str(secret), "5 letters")

    def test_options_that_contradict_each_other(self):
        meeting = ("--rendezvous", self.place)
        refused = {
            ("--rank", 1): ("--rank 1", "--rendezvous"),
            meeting: ("--rendezvous", "--rank"),
            ("--rank", 3, *meeting): ("--rank 3", "0 to 2"),
            ("--rank", -1, *meeting): ("--rank -1", "0 to 2"),
            ("--timeout", 0): ("--timeout",),
            ("--timeout", "nan"): ("--timeout",),
        }
        for options, parts in refused.items():
            with self.subTest(options):
                done = autopar("run", "--dir", self.bundle, *self.model.input_options(), *options,
                               expect=1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                for part in parts:
                    self.assertIn(part, done.stderr)

    def test_places_that_are_none(self):
        for place in ("host", "host:", ":29500", "host:0", "host:65536", "host:-1", "host:12x",
                      "::1:29500", "[::1]", "[]:29500", "[host]:29500", "a b:29500"):
            with self.subTest(place):
                done = autopar("run", "--dir", self.bundle, *self.model.input_options(), "--rank",
                               1, f"--rendezvous={place}", expect=1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"--rendezvous {place}: give HOST:PORT", done.stderr)

    def test_a_host_that_is_not_known(self):
        """The name of a container or a pod is not known before it runs."""
        self.place = "no.such.host.invalid:29500"
        options = (*self.model.input_options(), "--timeout", 1)
        self.assert_all_fail([self.start(1, *options)], "no.such.host.invalid", "not known")

    def test_an_ipv6_address(self):
        self.place = f"[::1]:{free_port()}"
        options = (*self.model.input_options(), "--timeout", 1)
        self.assert_all_fail([self.start(1, *options)], "nobody answers at " + self.place)

    def test_a_rendezvous_serves_under_a_launcher_too(self):
        with unittest.mock.patch.dict(os.environ, PMI_RANK="1", PMI_SIZE="2"):
            ranks = [self.start(rank) for rank in range(3)]
        for rank in ranks:
            self.finish(rank)

    def test_a_launcher_without_the_part_for_mpi(self):
        done = run("env", "PMI_RANK=1", "PMI_SIZE=3", "AUTOPAR_PLUGIN_DIR=/nowhere", AUTOPAR, "run",
                   "--dir", self.bundle, "--random-inputs", 1, expect=1)
        told, error = done.stderr.splitlines()
        self.assertIn("[rank 1] started by a launcher with PMI", told)
        self.assertTrue(error.startswith("error: [rank 1] "), error)
        self.assertIn("/nowhere/libautopar_mpi.so is missing", error)


HELLO = struct.Struct("<12sI IiiiII Q16s 24s32s")  # lib/runtime/comm/handshake.h


def hello(rank, size, version=4):
    return HELLO.pack(b"autopar rank", version, 0, rank, 0, size, 0, 0, 0, b"0" * 16, b"", b"n" * 32)


class IntruderTest(RanksOfAWorld):
    """Who does not know the secret changes nothing, and is told of in a line."""

    def connect(self):
        host, port = self.place.split(":")
        while True:
            try:
                return socket.create_connection((host, int(port)), timeout=60)
            except OSError:
                time.sleep(0.02)

    def finish_and_hear(self, process):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        return err

    def test_hellos_that_prove_nothing(self):
        first = self.start(0)
        strangers = []
        for words in (hello(1, 3), hello(1, 3, version=3), hello(2, 3) + bytes(32), b"GET / HTTP/1.0"):
            stranger = self.connect()
            self.addCleanup(stranger.close)
            stranger.sendall(words)
            strangers.append(stranger)
        self.assertTrue(strangers[0].recv(12).startswith(b"autopar rank"))
        others = [self.start(rank) for rank in (1, 2)]
        self.assertIn("of others were turned away", self.finish_and_hear(first))
        for rank in others:
            self.finish_and_hear(rank)

    def fake_first_rank(self, words):
        host, port = self.place.split(":")
        listener = socket.create_server((host, int(port)))
        self.addCleanup(listener.close)
        rank = self.start(1, *self.model.input_options(), "--timeout", 20)
        connection, _ = listener.accept()
        self.addCleanup(connection.close)
        connection.recv(HELLO.size)
        connection.sendall(words)
        return rank

    def test_a_fake_rank_0_is_found_out(self):
        signature = struct.pack("<12sI", b"autopar rank", 4)
        two_gigabytes = struct.pack("<II", 0, 0) + b"\xff" * 500
        self.assert_all_fail([self.fake_first_rank(signature + two_gigabytes)],
                             "rank 0 at " + self.place)

    def test_words_of_a_stranger_do_not_reach_the_terminal(self):
        error = self.finish(self.fake_first_rank(b"\x1b]0;title\x07\x1b[31m" * 20), expect=1)
        self.assertIn("is another program", error)
        self.assertTrue(error[:-1].isprintable(), error)

    def test_a_bit_that_flips_on_the_way_is_found(self):
        """Through a proxy between rank 1 and rank 0, behind what the two meet with."""
        target = self.place
        proxy = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(proxy.close)
        first = self.start(0, *self.model.input_options(), "--repeat", 200)
        second = self.start(2, *self.model.input_options(), "--repeat", 200)
        self.place = "127.0.0.1:%d" % proxy.getsockname()[1]
        disturbed = self.start(1, *self.model.input_options(), "--repeat", 200)
        inner, _ = proxy.accept()
        self.place = target
        outer = self.connect()
        for end in (inner, outer):
            end.settimeout(None)
            self.addCleanup(end.close)

        def pass_on(source, sink, flipped):
            passed = 0
            while chunk := source.recv(1 << 16):
                chunk = bytearray(chunk)
                if flipped is not None and passed <= flipped < passed + len(chunk):
                    chunk[flipped - passed] ^= 4
                passed += len(chunk)
                sink.sendall(chunk)

        for arguments in ((inner, outer, 5000), (outer, inner, None)):
            threading.Thread(target=pass_on, args=arguments, daemon=True).start()
        told = self.finish(first, expect=1)
        self.assertIn("damaged on the way", told)
        self.assertIn("rank 0 at 127.0.0.1:", told)
        self.assertIn("rank 1 at 127.0.0.1:", told)
        self.assert_all_fail([second], "rank 1")
        self.assert_all_fail([disturbed], "got damaged bytes from this rank")
