"""Ranks find out from their environment who has started them, as which rank, and where they meet."""

import json
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

from launched import Started, environment, run_ranks, torchrun
from support import AUTOPAR, Model, TemporaryFolderTest, waits_of
from test_rendezvous import free_port

RANKS = 3


def job_of(port, step=0):
    """A number of a job whose step meets at this port (docs/running.md)."""
    return (port - 10000 - step) * pow(31, -1, 20000) % 20000


def slurm(rank, size, port):
    return {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_STEP_NUM_TASKS": size,
            "SLURM_NTASKS": size, "SLURM_STEP_NODELIST": "127.0.0.[1-2]", "SLURM_STEP_ID": 0,
            "SLURM_JOB_ID": job_of(port)}  # fmt: skip


def kubernetes(rank, _, port):
    return {"JOB_COMPLETION_INDEX": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


class LaunchersTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, RANKS)
        self.command = ("run", "--dir", self.bundle, *self.model.input_options())

    def start_by(self, launcher, *arguments, size=RANKS):
        port = free_port()
        return port, run_ranks(lambda rank: launcher(rank, size, port), size, *arguments)

    def check_run(self, launcher, name):
        out = self.tmp / "out"
        port, ranks = self.start_by(launcher, *self.command, "--output-dir", out)
        for rank, (code, stdout, stderr) in enumerate(ranks):
            self.assertEqual(code, 0, stderr)
            self.assertEqual(stdout == "", rank > 0)
            line = (f"info: [rank {rank}] started by {name}: rank {rank} of {RANKS}, "
                    f"meeting at 127.0.0.1:{port}\n")  # fmt: skip
            self.assertTrue(stderr.startswith(line), stderr)
        self.assertLessEqual(self.model.error_of(out), self.model.tolerance)

    def test_variables_of_torchrun(self):
        self.check_run(torchrun, "torchrun")

    def test_tasks_of_slurm_without_pmi(self):
        self.check_run(slurm, "srun")

    def test_pods_of_an_indexed_job(self):
        self.check_run(kubernetes, "a Kubernetes job")

    def test_verify_and_calibrate(self):
        _, ranks = self.start_by(torchrun, "verify", self.model.file, self.bundle)
        for rank, (code, stdout, stderr) in enumerate(ranks):
            self.assertEqual(code, 0, stderr)
            self.assertEqual("largest relative error" in stdout, rank == 0)
        file = self.tmp / "device.json"
        with_secret = lambda *of: {**torchrun(*of), "AUTOPAR_SECRET": "sixteen letters.."}  # noqa: E731
        _, ranks = self.start_by(with_secret, "calibrate", "--quick", "--out", file, size=2)
        self.assertEqual([code for code, *_ in ranks], [0, 0], ranks)
        self.assertIn("links", json.loads(file.read_text()))

    def run_alone(self, expect, *options, **variables):
        done = subprocess.run([AUTOPAR, *map(str, (*self.command, *options))], text=True,
                              env=environment(**variables), capture_output=True, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def test_one_process_runs_all_ranks(self):
        alone = self.run_alone(0)
        for variables in ({"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "host"},
                          {"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 1},
                          {"SLURM_PROCID": 0, "SLURM_NTASKS": 3},
                          {"SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 1}):  # fmt: skip
            with self.subTest(variables):
                done = self.run_alone(0, **variables)
                self.assertEqual(done.stdout, alone.stdout)
                self.assertNotIn("[rank", done.stderr)
        done = self.run_alone(0, "--launcher", "none", **torchrun(1, RANKS, 1))
        self.assertNotIn("[rank", done.stderr)

    def test_contradictions(self):
        good = torchrun(1, RANKS, 1)
        refused = {
            "RANK is 3, but": {**good, "RANK": 3},
            "has 3 ranks, but 4 processes were started by torchrun": {**good, "WORLD_SIZE": 4},
            "RANK is set, but not MASTER_ADDR": {"RANK": 1, "WORLD_SIZE": RANKS},
            "RANK is 1, but WORLD_SIZE is not set": {"RANK": 1},
            "WORLD_SIZE is 3, but RANK is not set": {"WORLD_SIZE": RANKS},
            "RANK says that this is rank 1, SLURM_PROCID that it is rank 2": {
                **slurm(2, RANKS, 10000), **good},
            "'node[' is no list of hosts": {
                **slurm(1, RANKS, 10000), "SLURM_STEP_NODELIST": "node["},
            "the rendezvous here: give HOST:PORT": {**good, "AUTOPAR_RENDEZVOUS": "here"},
            "nothing tells this process's rank": {"AUTOPAR_RENDEZVOUS": "here:1"},
        }  # fmt: skip
        for words, variables in refused.items():
            with self.subTest(words):
                done = self.run_alone(1, **variables)
                errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
                self.assertEqual(len(errors), 1, done.stderr)
                self.assertIn(words, errors[0])
                self.assertEqual(done.stdout, "")
        self.assertIn("--launcher ssh", self.run_alone(1, "--launcher", "ssh").stderr)

    def test_a_process_keeps_to_the_cores_that_it_was_given(self):
        core = min(os.sched_getaffinity(0))
        with Started() as started:
            process = started.start(
                [AUTOPAR, *self.command, "--repeat", 10**8, "--cpus", core], {})  # fmt: skip
            while waits_of(process) < 100:  # its ranks wait for each other: they run
                time.sleep(0.02)
                self.assertIsNone(process.poll())
            tasks = list(Path(f"/proc/{process.pid}/task").glob("*/status"))
            allowed = [re.search(r"Cpus_allowed_list:\s*(\S+)", task.read_text()) for task in tasks]
            # One core for three ranks: the process's thread, and one of each.
            self.assertEqual(len(tasks), 1 + RANKS)
        self.assertEqual({found[1] for found in allowed if found} - {str(core)}, set())
        for text in ("", "0-", "one", 1023):
            self.assertIn("cores", self.run_alone(1, f"--cpus={text or ','}").stderr)

    def test_options_win(self):
        port = free_port()
        with Started() as ranks:
            for rank in range(RANKS):
                own = ("--rank", rank, "--rendezvous", f"127.0.0.1:{port}", "--threads", 1)
                ranks.start([AUTOPAR, *self.command, *own], torchrun(0, 17, 1))
            for rank, (code, _, stderr) in enumerate(ranks.finish()):
                self.assertEqual(code, 0, stderr)
                self.assertNotIn("started by", stderr)


if __name__ == "__main__":
    unittest.main()
