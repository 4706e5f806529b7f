"""calibrate measures ranks, however they are started, and plan and partition use what it writes.

No test looks at a time's value."""

import json
import os
import signal
import subprocess
import time

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, mpirun, waits_of
from test_rendezvous import free_port

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


class CalibrateTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.file = self.tmp / "device.json"
        self.options = ["calibrate", "--quick", "--threads", 1, "--device", "cpu", "--out",
                        self.file]

    def device(self, axes):
        device = json.loads(self.file.read_text())
        self.assertEqual(len(device["links"]), axes)
        self.assertIn("float32", device["flops_per_second"])
        self.assertIn("Softmax", device["element_seconds"])
        self.assertEqual([path.name for path in self.tmp.iterdir() if path.is_file()],
                         [self.file.name], "nothing is left beside the file")
        return device

    def plan(self, ngpus):
        model = Model("mlp-dynamo")
        done = autopar("plan", model.file, *model.shape_options(), "--ngpus", ngpus, "--device",
                       self.file, "--json")
        return json.loads(done.stdout)

    def assert_refused(self, done, *parts):
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_threads(self):
        done = autopar(*self.options, "--name", "this box")
        self.assertEqual(done.stdout, f"{self.file}\n")
        self.assertIn("how predictions fit", done.stderr)
        device = self.device(axes=1)
        self.assertEqual(device["name"], "this box")
        for kind in COLLECTIVES:
            self.assertIn(kind, device["links"][0])
        self.plan(2)
        bundle = self.tmp / "bundle"
        meta = Model("bert-dynamo").partition(bundle, 2, "--device", self.file)
        self.assertGreater(meta["plan"]["cost_seconds"], 0)
        autopar("run", "--dir", bundle, "--random-inputs", 1)

    def test_one_rank_sends_nothing(self):
        done = autopar(*self.options, "--ranks", 1)
        self.assertIn("no link was measured", done.stderr)
        self.assertIn("--ranks 2", done.stderr)
        self.assertNotIn("all-reduce", self.device(axes=1)["links"][0])
        self.plan(1)

    def test_a_link_for_each_mesh_axis(self):
        autopar(*self.options, "--mesh", "2x1x2")
        links = self.device(axes=3)["links"]
        self.assertTrue(all("all-reduce" in link for link in links))
        self.assertIn(links[1], (links[0], links[2]))  # what was not measured is the slowest
        self.plan(4)

    def test_mpirun(self):
        mpirun(2, *self.options)
        self.device(axes=1)
        mpirun(2, *self.options, "--force", "--mesh", "2")

    def test_rendezvous(self):
        place = f"127.0.0.1:{free_port()}"
        ranks = [self.start(rank, place, "--ranks", 3) for rank in (2, 0, 1)]
        outputs = [rank.communicate(timeout=300) for rank in ranks]
        for rank, (_, err) in zip(ranks, outputs):
            self.assertEqual(rank.returncode, 0, err)
        self.assertEqual([out for out, _ in outputs], ["", f"{self.file}\n", ""])
        self.device(axes=1)

    def test_ranks_that_would_measure_different_things(self):
        place = f"127.0.0.1:{free_port()}"
        ranks = [self.start(0, place, "--mesh", "2x1"), self.start(1, place, "--mesh", "1x2")]
        errors = [rank.communicate(timeout=300)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1, 1], errors)
        for error in errors:
            self.assertEqual(len(error.splitlines()), 1, error)
            self.assertIn("the same --mesh", error)
        self.assertFalse(self.file.exists())

    def start(self, rank, place, *options):
        command = [AUTOPAR, *self.options, "--rank", rank, "--rendezvous", place, *options]
        environment = {**os.environ, "AUTOPAR_SECRET": "known to all of the test"}
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_a_rank_that_dies_ends_the_others_and_nothing_is_written(self):
        place = f"127.0.0.1:{free_port()}"
        self.options.remove("--quick")  # so that it is still at work
        ranks = [self.start(rank, place, "--ranks", 2) for rank in range(2)]
        while waits_of(ranks[1]) < 1000:
            time.sleep(0.02)
            self.assertIsNone(ranks[1].poll(), "it ended before it was disturbed")
        ranks[1].send_signal(signal.SIGKILL)
        _, err = ranks[0].communicate(timeout=300)
        self.assertEqual(ranks[0].returncode, 1)
        self.assertEqual(err.count("error: "), 1, err)
        self.assertIn("rank 1", err)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_a_file_that_is_there_or_cannot_be(self):
        self.file.write_text("mine")
        self.assert_refused(autopar(*self.options, expect=1), str(self.file), "--force")
        self.assertEqual(self.file.read_text(), "mine")
        autopar(*self.options, "--force", "--ranks", 1)
        self.device(axes=1)
        for place, part in ((self.tmp, "folder"), (self.tmp / "none" / "device.json", "written")):
            done = autopar(*self.options[:-1], place, expect=1)
            self.assert_refused(done, str(place), part)
        self.assertFalse((self.tmp / "none").exists())

    def test_ranks_and_meshes_that_do_not_agree(self):
        for options, *parts in (
            (("--mesh", "2x2", "--ranks", 2), "--mesh 2x2", "4", "2"),
            (("--mesh", "2xtwo"), "2xtwo"),
            (("--ranks", -1), "--ranks -1"),
            (("--rank", 0, "--rendezvous", "127.0.0.1:1"), "--ranks"),
            (("--rank", 4, "--ranks", 2, "--rendezvous", "127.0.0.1:1"), "--rank 4", "0 to 1"),
            (("--timeout", "nan"), "--timeout"),
        ):
            with self.subTest(options):
                self.assert_refused(autopar(*self.options, *options, expect=1), *parts)
        done = mpirun(2, *self.options, "--mesh", "3", expect=1)
        self.assertIn("--mesh 3 has 3 ranks, but 2 processes were started", done.stderr)
        self.assertFalse(self.file.exists())

    def test_more_devices_than_the_cluster_has(self):
        model = Model("mlp-dynamo")
        options = [model.file, *model.shape_options(), "--device", "h100-cluster"]
        done = autopar("plan", *options, "--ngpus", 1032, expect=1)
        self.assert_refused(done, "1032", "128 nodes of 8", "1024")
        autopar("plan", *options, "--ngpus", 16, "--mesh", "auto", "--time-limit", 5)

