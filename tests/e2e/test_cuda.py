"""The CUDA runner from the command line, on emulated GPUs (tests/emulation): sample models, whole
and split, launched in every way, and what goes wrong. The emulation queues work in random order, so
that what lacks an order fails here; it tells nothing about speed."""

import json
import os
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

import numpy as np
from onnx import TensorProto

from support import (
    ADDS_BYTES_EXACTLY,
    AUTOPAR,
    MODELS,
    PLANNED,
    SOURCE,
    TOLERANCE,
    Model,
    TemporaryFolderTest,
    autopar,
    mpirun,
    relative_error,
)
from test_rendezvous import free_port

sys.path.insert(0, str(SOURCE / "scripts"))
from gpu_checks import tiny_models  # noqa: E402

# Products whose matrices are chosen in the run, or are of bytes.
EXPERTS_AND_BYTES = ("bert-qdq", "mixtral-dynamo", "mixtral-torchscript", "resnet50-qdq")
EMULATED = os.environ["AUTOPAR_EMULATED_PLUGINS"]


def environment(**more):
    return {**os.environ, "AUTOPAR_PLUGIN_DIR": EMULATED, **more}


class CudaTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.environment = environment()

    def start(self, bundle, *options, device="cuda"):
        command = [AUTOPAR, "run", "--dir", bundle, "--device", device, *options]
        return subprocess.Popen(
            list(map(str, command)),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process, expect=0):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, expect, err)
        return out if expect == 0 else err

    def run_cuda(self, bundle, *options):
        return self.finish(self.start(bundle, *options))

    def refuse(self, bundle, *options, parts=(), device="cuda"):
        lines = self.finish(self.start(bundle, *options, device=device), expect=1)
        error = "".join(line for line in lines.splitlines(True) if not line.startswith("warning: "))
        self.assertTrue(error.startswith("error: "), error)
        self.assertEqual(len(error.splitlines()), 1, error)
        for part in parts:
            self.assertIn(part, error)


class ZooTest(CudaTest):
    def test_models_give_onnx_runtimes_output_on_one_to_four_ranks(self):
        for name in (*PLANNED, *EXPERTS_AND_BYTES):
            model = Model(name)
            for ranks in (1, 2, 3, 4):
                bundle = self.tmp / f"{name}-{ranks}"
                meta = model.partition(bundle, ranks)
                for collectives in ("nccl", "host"):
                    with self.subTest(model=name, ranks=ranks, collectives=collectives):
                        out = self.tmp / f"{name}-{ranks}-{collectives}"
                        self.environment["AUTOPAR_EMULATION_SEED"] = str(ranks)
                        done = self.run_cuda(
                            bundle, *model.input_options(), "--output-dir", out, "--json",
                            "--collectives", collectives, "--repeat", 2,
                        )  # fmt: skip
                        measured = json.loads(done)
                        self.assertLessEqual(model.error_of(out), TOLERANCE)
                        self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])
                        if collectives == "nccl":
                            self.assertEqual(measured["launches_per_run"], [1] * ranks)
                        for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
                            weights = rank["weight_bytes"]
                            self.assertLessEqual(peak, rank["peak_bytes"])
                            if name.endswith("-qdq") and not ADDS_BYTES_EXACTLY:
                                continue  # the CPU, for which is predicted, too, needs more
                            self.assertLessEqual(rank["peak_bytes"] - weights, 1.5 * (peak - weights))

    def test_stages_give_what_they_give_on_the_cpu(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "6"
        for name, stages, mesh, microbatches in (
            ("gpt2-dynamo", 2, 1, 5), ("llama-torchscript", 3, 1, 2), ("bert-dynamo", 2, 2, 2),
            ("vit-dynamo", 3, 2, 1), ("mlp-dynamo", 2, 2, 5),
        ):  # fmt: skip
            model = Model(name)
            shapes = []
            for port, tensor in model.inputs.items():
                shapes += ["--shape", f"{port}={'x'.join(map(str, [5, *tensor.shape[1:]]))}"]
            bundle = self.tmp / name
            autopar(
                "partition", model.file, *shapes, "--ngpus", stages * mesh, "--stages", stages,
                "--mesh", mesh, "--microbatches", microbatches, "--out", bundle,
            )  # fmt: skip
            run = ("run", "--dir", bundle, "--random-inputs", 1, "--output-dir")
            expected = self.tmp / f"{name}-cpu"
            autopar(*run, expected)
            for collectives in ("nccl", "host"):
                with self.subTest(model=name, collectives=collectives):
                    out = self.tmp / f"{name}-{collectives}"
                    self.environment["AUTOPAR_EMULATION_SEED"] = str(stages)
                    done = self.run_cuda(
                        bundle, "--random-inputs", 1, "--output-dir", out, "--json",
                        "--collectives", collectives, "--repeat", 2,
                    )  # fmt: skip
                    for file in expected.iterdir():
                        error = relative_error(np.load(file), np.load(out / file.name))
                        self.assertLessEqual(error, TOLERANCE)
                    meta = json.loads((bundle / "meta-info.json").read_text())
                    measured = json.loads(done)
                    self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])
                    if collectives == "nccl":
                        self.assertEqual(measured["launches_per_run"], [1] * (stages * mesh))

    def test_decoders_generate_what_transformers_does(self):
        """A prompt's rows stay in the GPU's memory, for steps with a graph of their own."""
        for name, batch, ranks in (
            ("llama-step-torchscript", "batch=3", 2),
            ("llama-gqa", "batch_size=1", 2),
            ("llama-static", "batch=3", 1),
        ):
            with self.subTest(name):
                made = json.loads((MODELS / name / "generated.json").read_text())
                ids = self.tmp / "ids"
                ids.write_text("".join(" ".join(map(str, ids)) + "\n" for ids in made["prompts"]))
                bundle = self.tmp / name
                autopar("partition", MODELS / name / "model.onnx", "--shape", batch, "--ngpus", ranks,
                        "--out", bundle)  # fmt: skip
                words = [AUTOPAR, "generate", "--dir", bundle, "--ids", ids, "--max-tokens", 10,
                         "--device", "cuda"]  # fmt: skip
                lines = subprocess.run(list(map(str, words)), env=self.environment, text=True, check=True,
                                       capture_output=True, timeout=300).stdout.splitlines()  # fmt: skip
                texts = [[int(token) for token in line.split()] for line in lines[:3]]
                self.assertEqual(texts, [text[:10] for text in made["texts"]])

    def test_the_same_bits_come_from_run_to_run(self):
        model = Model("llama-dynamo")
        bundle = self.tmp / "bundle"
        model.partition(bundle, 2)
        outputs = []
        for seed in ("1", "2", "3"):
            self.environment["AUTOPAR_EMULATION_SEED"] = seed
            out = self.tmp / f"out{seed}"
            self.run_cuda(bundle, *model.input_options(), "--output-dir", out, "--repeat", 2)
            outputs.append([path.read_bytes() for path in sorted(out.iterdir())])
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])

    def test_a_profile_tells_of_both_queues_of_every_rank(self):
        model = Model("gpt2-dynamo")
        bundle = self.tmp / "bundle"
        meta = model.partition(bundle, 2)
        trace = self.tmp / "trace.json"
        self.run_cuda(bundle, *model.input_options(), "--profile", trace)
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        sent = sum(event["args"].get("bytes", 0) for event in events)
        self.assertEqual(sent, sum(use["bytes"] for use in meta["profiles"][0]["collectives"]))


class HalfTest(CudaTest):
    def test_half_models_are_within_their_own_rounding_of_float32(self):
        for name in tiny_models.names():
            for data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
                model = tiny_models.load(name, data_type, self.tmp)
                shapes = [
                    option
                    for name_of, shape in model.shapes().items()
                    for option in ("--shape", f"{name_of}={'x'.join(map(str, shape))}")
                ]
                for ranks in (1, 2, 3, 4):
                    with self.subTest(model=name, data_type=data_type, ranks=ranks):
                        bundle = self.tmp / f"{name}-{data_type}-{ranks}"
                        autopar("partition", model.file, *shapes, "--ngpus", ranks, "--out", bundle)
                        out = self.tmp / f"out-{name}-{data_type}-{ranks}"
                        self.run_cuda(
                            bundle, *model.input_options, "--output-dir", out, "--repeat", 2
                        )
                        self.assertLessEqual(model.error_of(out), model.tolerance)


class TwoRanksTest(CudaTest):
    def setUp(self):
        super().setUp()
        self.model = Model("mlp-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)
        self.options = self.model.input_options()


class LaunchTest(TwoRanksTest):
    def check(self, out):
        self.assertLessEqual(self.model.error_of(out), TOLERANCE)

    def test_ranks_under_mpirun(self):
        plugins = self.tmp / "plugins"  # MPI's is the real one
        plugins.mkdir()
        for folder in (Path(EMULATED), Path(AUTOPAR).parent.parent / "lib" / "autopar"):
            for plugin in folder.glob("*.so"):
                if not (plugins / plugin.name).exists():
                    (plugins / plugin.name).symlink_to(plugin)
        for collectives in ("nccl", "host"):
            out = self.tmp / collectives
            with unittest.mock.patch.dict(os.environ, AUTOPAR_PLUGIN_DIR=str(plugins)):
                mpirun(2, "run", "--dir", self.bundle, "--device", "cuda", "--collectives",
                       collectives, *self.options, "--output-dir", out)  # fmt: skip
            self.check(out)

    def test_gpus_of_every_architecture_that_has_code(self):
        for architecture in (80, 86, 89, 90, 100, 103, 120):
            with self.subTest(architecture):
                self.environment["AUTOPAR_EMULATED_ARCHITECTURE"] = str(architecture)
                out = self.tmp / f"out-{architecture}"
                self.run_cuda(self.bundle, *self.options, "--output-dir", out, "--repeat", 2)
                self.check(out)

    def start_at_rendezvous(self, *options, of_rank=lambda _: {}):
        """`of_rank` gives what a rank's environment has beside that of all."""
        place = f"127.0.0.1:{free_port()}"
        common, ranks = self.environment, []
        for rank in (0, 1):
            self.environment = {**common, **of_rank(rank)}
            ranks.append(self.start(self.bundle, *self.options, "--rank", rank, "--rendezvous",
                                    place, *options))  # fmt: skip
        self.environment = common
        return ranks

    def test_ranks_at_a_rendezvous(self):
        for collectives in ("nccl", "host"):
            out = self.tmp / collectives
            for rank in self.start_at_rendezvous("--collectives", collectives, "--output-dir", out):
                self.finish(rank)
            self.check(out)

    def test_auto_takes_gpus_where_every_rank_has_one_that_serves(self):
        driver = self.tmp / "driver"  # that there is one is all that is asked of it
        driver.mkdir()
        (driver / "libcuda.so.1").symlink_to(Path(EMULATED) / "libautopar_cuda.so")
        for machine, has_gpus in (({}, True), ({"AUTOPAR_EMULATED_GPUS": "1"}, False),
                                  ({"AUTOPAR_EMULATED_ARCHITECTURE": "75"}, False),
                                  ({"AUTOPAR_EMULATED_DRIVER": "11080"}, False)):  # fmt: skip
            with self.subTest(machine):
                self.environment = environment(LD_LIBRARY_PATH=str(driver), **machine)
                out = self.tmp / f"out-{'-'.join(machine)}"
                run = self.start(self.bundle, *self.options, "--output-dir", out, "--json",
                                 "--repeat", 2, device="auto")  # fmt: skip
                launches = json.loads(self.finish(run))["launches_per_run"]
                self.assertEqual(launches == [1, 1], has_gpus)
                self.check(out)

    def test_launchers_may_show_each_rank_a_single_gpu(self):
        place = f"127.0.0.1:{free_port()}"
        ranks = []
        for rank in (0, 1):
            self.environment["CUDA_VISIBLE_DEVICES"] = str(rank)
            ranks.append(self.start(self.bundle, *self.options, "--rank", rank, "--rendezvous",
                                    place, "--output-dir", self.tmp / "out"))  # fmt: skip
        for rank in ranks:
            self.finish(rank)
        self.check(self.tmp / "out")

    def test_a_rank_that_hangs_in_a_collective_ends_the_others_within_the_timeout(self):
        self.environment["AUTOPAR_NCCL_HANG"] = "1:1"
        ranks = self.start_at_rendezvous("--timeout", 8, "--repeat", 3)
        errors = [self.finish(rank, expect=1) for rank in ranks]
        self.assertTrue(any("did not finish within 8 s" in error for error in errors), errors)

    def test_nccl_that_fails_while_a_graph_runs_ends_every_rank(self):
        for operation in (3, 7):
            self.environment["AUTOPAR_NCCL_FAIL"] = f"1:{operation}"
            ranks = self.start_at_rendezvous("--timeout", 60, "--repeat", 1000)
            errors = [self.finish(rank, expect=1) for rank in ranks]
            for error in errors:
                self.assertEqual(len(error.splitlines()), 1, errors)
            self.assertIn("remote process exited", errors[1])

    def test_a_killed_rank_ends_the_others_while_they_replay_a_graph(self):
        ranks = self.start_at_rendezvous("--timeout", 60, "--repeat", 100_000_000)
        time.sleep(2)  # well into the runs; earlier is as good a test
        ranks[1].kill()
        error = self.finish(ranks[0], expect=1)
        self.assertEqual(len(error.splitlines()), 1, error)
        self.assertIn("rank 1", error)
        ranks[1].communicate()

    def test_a_kernel_that_fails_ends_every_rank(self):
        self.environment["AUTOPAR_EMULATED_BAD_KERNEL"] = "3"
        error = self.finish(self.start(self.bundle, *self.options), expect=1)
        self.assertRegex(error, r"error: a kernel of the run failed on GPU \d .unspecified launch failure")
        for collectives in ("nccl", "host"):
            place = f"127.0.0.1:{free_port()}"
            ranks = []
            for rank in (0, 1):
                self.environment["AUTOPAR_EMULATED_BAD_KERNEL"] = "3" if rank == 1 else "0"
                ranks.append(self.start(self.bundle, *self.options, "--rank", rank, "--rendezvous",
                                        place, "--collectives", collectives))  # fmt: skip
            errors = [self.finish(rank, expect=1) for rank in ranks]
            self.assertIn("unspecified launch failure", errors[1])
            self.assertIn("rank 1", errors[0])

    def test_ranks_share_a_gpu_with_host_collectives_alone(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "1"
        self.refuse(self.bundle, *self.options, parts=("1 GPU(s) for 2 ranks", "--collectives host"))
        out = self.tmp / "out"
        done = self.start(self.bundle, *self.options, "--collectives", "host", "--output-dir", out)
        _, err = done.communicate(timeout=300)
        self.assertEqual(done.returncode, 0, err)
        self.assertEqual(err.count("collectives go through the host"), 1, err)
        self.check(out)

    def test_ranks_that_name_two_machines_share_a_gpu_with_nccl(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "1"
        for repeat in (1, 3):
            out = self.tmp / f"out{repeat}"
            for rank in self.start_at_rendezvous(
                "--gpu", 0, "--repeat", repeat, "--output-dir", out,
                of_rank=lambda rank: {"NCCL_HOSTID": f"machine-{rank}"},
            ):  # fmt: skip
                self.finish(rank)
            self.check(out)
        ranks = self.start_at_rendezvous("--gpu", 0, of_rank=lambda _: {"NCCL_HOSTID": "machine"})
        errors = [self.finish(rank, expect=1) for rank in ranks]
        self.assertTrue(any("start one rank for each GPU" in error for error in errors), errors)


class FaultTest(TwoRanksTest):
    def test_what_cannot_run_is_told_in_one_line(self):
        self.refuse(self.bundle, *self.options, "--gpu", 0, parts=("--gpu 0", "2 ranks"))
        self.refuse(self.bundle, *self.options, "--collectives", "smoke", parts=("--collectives smoke",))
        self.refuse(self.bundle, *self.options, device="tpu", parts=("--device tpu",))
        self.refuse(self.bundle, *self.options, "--gpu", 0, device="cpu", parts=("--device cuda",))
        self.refuse(self.bundle, *self.options, "--collectives", "host", "--gpu", 9,
                    parts=("no GPU 9",))  # fmt: skip

    def test_no_gpu_and_an_old_driver(self):
        self.environment["AUTOPAR_EMULATED_GPUS"] = "0"
        self.refuse(self.bundle, *self.options, parts=("no GPU", "--device cpu"))
        self.environment = environment(AUTOPAR_EMULATED_DRIVER="11080")
        self.refuse(self.bundle, *self.options, parts=("driver", "11.8"))
        for architecture, capability in (("75", "7.5"), ("110", "11.0")):
            self.environment = environment(AUTOPAR_EMULATED_ARCHITECTURE=architecture)
            self.refuse(self.bundle, *self.options, parts=(
                f"compute capability {capability}", "8.0, 9.0, 10.0, 12.0 and newer", "--device cpu"
            ))  # fmt: skip

    def test_a_gpu_without_enough_memory_tells_what_was_needed_and_what_was_free(self):
        self.environment["AUTOPAR_EMULATED_MEMORY"] = "65536"
        self.refuse(self.bundle, *self.options, parts=("free", "needs", "--memory"))

    def test_plugins_that_are_missing(self):
        self.environment["AUTOPAR_PLUGIN_DIR"] = str(self.tmp)
        self.refuse(self.bundle, *self.options, parts=("libautopar_cuda.so", "missing"))

    def test_without_an_emulation_this_machine_has_no_gpu_or_says_so(self):
        """The real plugin: refused where there is no driver; a machine with a GPU just runs."""
        del self.environment["AUTOPAR_PLUGIN_DIR"]
        process = self.start(self.bundle, *self.options, "--collectives", "host")
        _, err = process.communicate(timeout=300)
        if process.returncode != 0:
            self.assertEqual(process.returncode, 1, err)
            self.assertRegex(err, "--device|libautopar_cuda.so")
