"""The job files of scripts/launch/ run, as far as one machine can: by stand-ins for Slurm and torchrun
that start what they are told to, and with the variables that the files of compose and Kubernetes set."""

import os
import re
import subprocess
import sys
import unittest

import yaml

from launched import Started, environment
from support import AUTOPAR, SOURCE, Model, TemporaryFolderTest
from test_launchers import job_of
from test_rendezvous import free_port

SCRIPTS = SOURCE / "scripts" / "launch"
RANKS = 4

# Starts the ranks, and ends with the first exit code that is none of success.
START = """
def start(tasks, command):
    ranks = [subprocess.Popen(command, env={**os.environ, **task}) for task in tasks]
    sys.exit(max(rank.wait() for rank in ranks))
"""
SRUN = f"""#!{sys.executable}
import argparse, os, subprocess, sys
{START}
options = argparse.ArgumentParser()
options.add_argument("--mpi")
options.add_argument("--kill-on-bad-exit")
options.add_argument("--cpus-per-task", type=int)
options.add_argument("command", nargs=argparse.REMAINDER)
given = options.parse_args()
assert given.mpi == "none" and given.cpus_per_task == 1, given
size = os.environ["SLURM_NTASKS"]
start([{{"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_ID": "0",
         "SLURM_STEP_NODELIST": "127.0.0.[1-2]"}} for rank in range(int(size))], given.command)
"""
# As torchrun does, it listens at MASTER_PORT itself.
TORCHRUN = f"""#!{sys.executable}
import argparse, os, socket, subprocess, sys
{START}
options = argparse.ArgumentParser()
options.add_argument("--nproc-per-node", type=int)
options.add_argument("--nnodes", type=int)
options.add_argument("--node-rank", type=int)
options.add_argument("--master-addr")
options.add_argument("--master-port", type=int)
options.add_argument("--no-python", action="store_true")
options.add_argument("command", nargs=argparse.REMAINDER)
given = options.parse_args()
assert given.no_python and given.nnodes == 1 and given.node_rank == 0, given
agent = socket.create_server((given.master_addr, given.master_port))
start([{{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(given.nproc_per_node),
         "MASTER_ADDR": given.master_addr, "MASTER_PORT": str(given.master_port),
         "TORCHELASTIC_USE_AGENT_STORE": "True"}} for rank in range(given.nproc_per_node)],
      given.command)
"""


class LaunchScriptsTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, RANKS)
        self.out = self.tmp / "out"
        self.programs = self.tmp / "bin"
        self.programs.mkdir()
        (self.programs / "autopar").symlink_to(AUTOPAR)
        self.port = free_port()

    def put_program(self, name, text):
        program = self.programs / name
        program.write_text(text)
        program.chmod(0o755)

    def run_script(self, *command, **variables):
        path = f"{self.programs}:{os.environ['PATH']}"
        inputs = (*self.model.input_options(), "--threads", 1, "--output-dir", self.out)
        done = subprocess.run(
            list(map(str, (*command, *inputs))), env=environment(PATH=path, **variables), text=True,
            capture_output=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(self.model.error_of(self.out), self.model.tolerance)
        return done.stderr

    def assert_all_were_started(self, told, launcher, place):
        for rank in range(RANKS):
            self.assertIn(f"started by {launcher}: rank {rank} of {RANKS}, meeting at {place}", told)

    def test_slurm(self):
        self.put_program("srun", SRUN)
        told = self.run_script(SCRIPTS / "slurm.sbatch", self.bundle, SLURM_NTASKS=RANKS,
                               SLURM_PROCID=0, SLURM_JOB_ID=job_of(self.port))  # fmt: skip
        self.assert_all_were_started(told, "srun", f"127.0.0.1:{self.port}")

    def test_torchrun(self):
        self.put_program("torchrun", TORCHRUN)
        told = self.run_script(SCRIPTS / "torchrun.sh", RANKS, self.bundle, MASTER_PORT=self.port)
        self.assert_all_were_started(told, "torchrun", f"127.0.0.1:{self.port + 1}")

    def run_containers(self, commands, variables):
        """Each with its environment; a volume's place becomes the bundle's."""
        with Started() as ranks:
            for command, own in zip(commands, variables):
                self.assertEqual(command[0], "autopar")
                words = [str(self.bundle) if word == "/bundle" else word for word in command[1:]]
                ranks.start([AUTOPAR, *words, "--threads", 1], own)
            finished = ranks.finish()
        for code, _, stderr in finished:
            self.assertEqual(code, 0, stderr)
        return "".join(stderr for *_, stderr in finished)

    def test_compose(self):
        services = yaml.safe_load((SCRIPTS / "compose.yaml").read_text())["services"]
        variables = [service["environment"] for service in services.values()]
        self.assertEqual(len(services), RANKS)
        self.assertEqual([own["RANK"] for own in variables], list(map(str, range(RANKS))))
        self.assertEqual({own["WORLD_SIZE"] for own in variables}, {str(RANKS)})
        for service, own in zip(services.values(), variables):
            self.assertEqual(services[own["MASTER_ADDR"]]["environment"]["RANK"], "0")
            self.assertRegex(service["volumes"][0], r"\$\{BUNDLE:.*\}:/bundle:ro$")
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port}
        told = self.run_containers([service["command"] for service in services.values()],
                                   [{**own, **here} for own in variables])  # fmt: skip
        self.assert_all_were_started(told, "torchrun", f"127.0.0.1:{self.port}")

    def test_kubernetes(self):
        text = (SCRIPTS / "kubernetes.yaml").read_text()
        service, job = yaml.safe_load_all(text)
        self.assertEqual((service["kind"], job["kind"]), ("Service", "Job"))
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(service["spec"]["selector"], {"job-name": job["metadata"]["name"]})
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        self.assertEqual(job["spec"]["completions"], RANKS)
        self.assertEqual(job["spec"]["parallelism"], RANKS)
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(pod["restartPolicy"], "Never")
        [container] = pod["containers"]
        self.assertEqual(container["volumeMounts"][0]["mountPath"], "/bundle")
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port}
        told = self.run_containers([container["command"]] * RANKS,
                                   [{"JOB_COMPLETION_INDEX": index, **here} for index in range(RANKS)])
        self.assert_all_were_started(told, "a Kubernetes job", f"127.0.0.1:{self.port}")

    def test_each_is_told_of(self):
        page = (SOURCE / "docs" / "running.md").read_text()
        for file in SCRIPTS.iterdir():
            self.assertIn(f"scripts/launch/{file.name}", page)
            self.assertRegex(file.read_text(), re.compile(rf"^# .*\n#.* scripts/launch/{file.name}", re.M))


if __name__ == "__main__":
    unittest.main()
