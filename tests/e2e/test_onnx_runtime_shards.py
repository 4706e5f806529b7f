"""Shards in stock ONNX Runtime: as threads, processes and under MPI, against the whole model there. The
tests of the zoo do the first for every model."""

import json
import os
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import onnx_runtime_shards as shards
from pinned_axes import over_axes
from ranks import free_port
from support import Model, TemporaryFolderTest, autopar, relative_error, run

# One rank in a process of its own: BUNDLE, INPUTS and OUTPUTS (.npz), RANK or "launched", ENTRY=VALUE...
RANK_PROCESS = """
import os, signal, sys
import numpy as np
import onnx_runtime_shards as shards
bundle, inputs, outputs, rank, *entries = sys.argv[1:]
rank = int(os.environ["OMPI_COMM_WORLD_RANK"] if rank == "launched" else rank)
session = shards.open_rank(bundle, rank, **dict(entry.split("=") for entry in entries))
profile = shards.json.loads((shards.Path(bundle) / "meta-info.json").read_text())["profiles"][0]
for _ in range(2):
    made = shards.run_rank(session, rank, profile, np.load(inputs))
if "DIES" in os.environ and rank == int(os.environ["DIES"]):
    os.kill(os.getpid(), signal.SIGKILL)
if "DIES" in os.environ:
    shards.run_rank(session, rank, profile, np.load(inputs))
np.savez(f"{outputs}-{rank}.npz", *made)
"""


def in_threads(work, ranks):
    """What each rank's call gives: a result or the exception."""
    def call(rank):
        try:
            return work(rank)
        except Exception as error:  # noqa: BLE001
            return error

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(call, range(ranks)))


@unittest.skipUnless(shards.IS_BUILT, "no header of ONNX Runtime was found for the build")
class ShardsTest(TemporaryFolderTest):
    def bundle_of(self, name, ranks, *options):
        self.model = Model(name)
        bundle = self.tmp / f"{name}-{ranks}"
        meta = self.model.partition(bundle, ranks, *options)
        np.savez(self.tmp / "inputs.npz", **self.model.inputs)
        return bundle, meta

    def start(self, bundle, rank, *entries, **environment):
        command = [sys.executable, "-c", RANK_PROCESS, bundle, self.tmp / "inputs.npz",
                   self.tmp / "outputs", rank, *entries]  # fmt: skip
        return subprocess.Popen(list(map(str, command)), env={**os.environ, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def check_outputs(self, meta):
        by_rank = []
        for rank in range(len(meta["ranks"])):
            with np.load(self.tmp / f"outputs-{rank}.npz") as made:
                by_rank.append([made[name] for name in made.files])
        self.check(shards.whole_outputs(meta["profiles"][0], by_rank))

    def check(self, outputs):
        for name, expected in self.model.outputs.items():
            self.assertLessEqual(relative_error(expected, outputs[name]), 1e-4, name)

    def test_nodes_that_run_at_once_keep_the_order_of_collectives(self):
        # Neighbours are split over different axes: by the data alone, six of ten runs fail.
        line, _ = self.bundle_of("unet-dynamo", 2)
        plan = json.loads((line / "plan.json").read_text())
        strategy = self.tmp / "strategy.json"
        strategy.write_text(json.dumps(over_axes(plan, lambda place: str(place // 3 % 2))))
        bundle, meta = self.bundle_of("unet-dynamo", 4, "--mesh", "2x2", "--strategy", strategy,
                                      "--memory", "device", "--loop", "none")  # fmt: skip
        profile = meta["profiles"][0]
        options = shards.options_of(bundle)
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 4

        def work(rank):
            return shards.run_rank(sessions[rank], rank, profile, self.model.inputs)

        for _ in range(6):
            sessions = [onnxruntime.InferenceSession(f"{bundle}/rank{rank}.onnx", options)
                        for rank in range(4)]
            self.check(shards.whole_outputs(profile, in_threads(work, 4)))

    def test_processes_meet(self):
        bundle, meta = self.bundle_of("gpt2-dynamo", 3)
        place = f"rendezvous=127.0.0.1:{free_port()}"
        processes = [self.start(bundle, rank, place) for rank in range(3)]
        for process in processes:
            told, _ = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, told)
        self.check_outputs(meta)

    def test_mpirun_starts_them(self):
        bundle, meta = self.bundle_of("bert-dynamo", 2)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        run("mpirun", *root, "--oversubscribe", "-np", 2, sys.executable, "-c", RANK_PROCESS, bundle,
            self.tmp / "inputs.npz", self.tmp / "outputs", "launched")
        self.check_outputs(meta)

    def test_a_process_that_is_killed_ends_the_others(self):
        bundle, _ = self.bundle_of("mlp-dynamo", 3)
        place = f"rendezvous=127.0.0.1:{free_port()}"
        processes = [self.start(bundle, rank, place, DIES="1") for rank in range(3)]
        for rank, process in enumerate(processes):
            told, _ = process.communicate(timeout=120)
            self.assertNotEqual(process.returncode, 0)
            if rank != 1:
                self.assertRegex(told.splitlines()[-1], "ONNXRuntimeError.*rank 1")

    def test_threads_of_which_one_does_not_come(self):
        bundle, meta = self.bundle_of("mlp-dynamo", 2)
        profile = meta["profiles"][0]
        sessions = [shards.open_rank(bundle, rank, timeout=1) for rank in range(2)]

        def work(rank):
            return shards.run_rank(sessions[rank], rank, profile, self.model.inputs)

        began = time.monotonic()
        with self.assertRaisesRegex(Exception, r"rank\(s\) 1"):
            work(0)
        self.assertLess(time.monotonic() - began, 60)
        with self.assertRaisesRegex(Exception, "open all their sessions again"):
            work(0)
        with self.assertRaisesRegex(Exception, r"rank\(s\) 0"):  # which has failed before it came
            work(1)
        # Sessions that are opened again belong to a new world.
        del sessions
        self.check(shards.run_in_threads(bundle, self.model.inputs))

    def test_profiles_of_a_bundle_share_a_world(self):
        self.model = Model("llama-step-torchscript")
        bundle = self.tmp / "bundle"
        autopar("partition", self.model.file, "--shape", "sequence=1,4", "--shape", "past_sequence=3,0",
                "--ngpus", 2, "--out", bundle)
        profiles = json.loads((bundle / "meta-info.json").read_text())["profiles"]
        whole = onnxruntime.InferenceSession(self.model.file)
        files = [[f"rank{rank}.onnx", f"rank{rank}.1.onnx"] for rank in range(2)]
        self.assertEqual(len(profiles), 2)
        options = [shards.options_of(bundle) for _ in range(2)]
        sessions = [[onnxruntime.InferenceSession(bundle / file, options[rank]) for file in files[rank]]
                    for rank in range(2)]
        rng = np.random.default_rng(0)
        types = {"int64": np.int64, "float32": np.float32}
        for number in (0, 1, 0):
            inputs = {
                port["name"]: np.ones(port["shape"], np.int64) if port["type"] == "int64"
                else rng.random(port["shape"], types[port["type"]])
                for port in profiles[number]["inputs"]
            }  # fmt: skip
            made = in_threads(lambda rank, n=number, given=inputs: shards.run_rank(
                sessions[rank][n], rank, profiles[n], given), 2)  # fmt: skip
            outputs = shards.whole_outputs(profiles[number], made)
            names = [output.name for output in whole.get_outputs()]
            for name, expected in zip(names, whole.run(names, inputs), strict=True):
                self.assertLessEqual(relative_error(expected, outputs[name]), 1e-4, name)

    def test_what_is_wrong_is_told_in_one_line(self):
        bundle, _ = self.bundle_of("mlp-dynamo", 2)
        other, _ = self.bundle_of("mlp-dynamo", 3)
        options = onnxruntime.SessionOptions()
        with self.assertRaisesRegex(Exception, "autopar.bundle.*before"):
            options.register_custom_ops_library(shards.LIBRARY)
        with self.assertRaisesRegex(Exception, "autopar.timeout soon: give seconds"):
            shards.open_rank(bundle, 0, timeout="soon")
        with self.assertRaisesRegex(Exception, "is of rank 2, but .* has 2 ranks"):
            onnxruntime.InferenceSession(other / "rank2.onnx", shards.options_of(bundle))

    def test_the_library_has_nothing_of_onnx_and_shows_one_symbol(self):
        shown = run("nm", "--dynamic", "--defined-only", "--format=just-symbols", shards.LIBRARY).stdout
        self.assertEqual(shown.split(), ["RegisterCustomOps"])
        needed = run("readelf", "--dynamic", shards.LIBRARY).stdout
        self.assertNotRegex(needed, "NEEDED.*(onnx|protobuf|autopar)")


def collective(op_type, inputs, outputs, rank, **attributes):
    group = {"ranks": [0, 1], "mesh_axes": [0], "rank": rank}
    name = f"{(outputs + inputs)[0]}/{op_type}"
    if op_type in ("Send", "Recv"):
        group = {"rank": rank, "peers": [1 - rank], "starts": [0], "ends": [2]}
    return helper.make_node(op_type, inputs, outputs, name, domain="autopar", **group, **attributes)


@unittest.skipUnless(shards.IS_BUILT, "no header of ONNX Runtime was found for the build")
class OptimizationTest(TemporaryFolderTest):
    """What ONNX Runtime's optimisations might do to collectives, they do not."""

    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("mlp-dynamo").partition(self.bundle, 2)

    def run_both(self, nodes_of, outputs, **entries):
        """Two ranks, whose input `x` and constant `w` are [rank + 1, rank + 1]."""
        def session(rank):
            own = np.full(2, rank + 1, np.float32)
            values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
                      for name in ["x", *outputs]]
            graph = helper.make_graph(nodes_of(rank), "shard", values[:1], values[1:],
                                      [helper.make_tensor("w", TensorProto.FLOAT, [2], own)])
            model = helper.make_model(graph, ir_version=9, opset_imports=[
                helper.make_opsetid("", 18), helper.make_opsetid("autopar", 1)])  # fmt: skip
            return onnxruntime.InferenceSession(
                model.SerializeToString(), shards.options_of(self.bundle, **entries))

        sessions = [session(rank) for rank in range(2)]
        return in_threads(
            lambda rank: sessions[rank].run(outputs, {"x": np.full(2, rank + 1, np.float32)}), 2)

    def test_a_collective_of_a_constant_is_not_folded_and_equal_ones_are_not_merged(self):
        def nodes(rank):
            return [collective("AllReduce", ["w"], ["a"], rank, reduce="sum"),
                    collective("AllReduce", ["x"], ["b"], rank, reduce="sum"),
                    collective("AllReduce", ["x"], ["c"], rank, reduce="sum")]

        for made in self.run_both(nodes, ["a", "b", "c"]):
            self.assertEqual([list(each) for each in made], [[3, 3]] * 3)

    def test_messages_in_another_order_reach_their_values(self):
        def nodes(rank):
            if rank == 0:
                return [helper.make_node("Neg", ["x"], ["n"]),
                        collective("Send", ["n"], [], rank), collective("Send", ["x"], [], rank)]
            received = [collective("Recv", [], [name], rank, shape=[2], dtype=TensorProto.FLOAT)
                        for name in "xn"]
            for node, name in zip(received, "xn", strict=True):
                node.output[0] = f"{name}1"
            return [*received, helper.make_node("Sub", ["x1", "n1"], ["n"])]

        _, received = self.run_both(nodes, ["n"])
        self.assertEqual(list(received[0]), [2, 2])

    def test_ranks_in_different_orders_are_told_so(self):
        def nodes(rank):
            first = [collective("AllReduce", ["x"], ["a"], rank, reduce="sum"),
                     collective("AllReduce", ["a"], ["b"], rank, reduce="sum")]
            for node, name in zip(first, "ab" if rank == 0 else "ba", strict=True):
                node.name = name
            return first

        for error in self.run_both(nodes, ["b"]):
            self.assertRegex(str(error), "at node|given up")
        self.assertTrue(any("of one bundle" in str(e) for e in self.run_both(nodes, ["b"])))


if __name__ == "__main__":
    unittest.main()
