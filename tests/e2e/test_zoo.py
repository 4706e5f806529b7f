"""A sample model, split in every way, gives ONNX Runtime's output and the predicted bytes, in half
precision, too, and its shards run in ONNX Runtime."""

import json
import os
import shutil
import sys
import zlib
from unittest import mock

from onnx import TensorProto

import onnx_runtime_shards
from pinned_axes import over_axes
from support import (
    ADDS_BYTES_EXACTLY,
    ALL_CASES,
    SOURCE,
    Model,
    TemporaryFolderTest,
    autopar,
    mpirun,
    relative_error,
)

sys.path.insert(0, str(SOURCE / "scripts"))
from gpu_checks import tiny_models  # noqa: E402

SEARCHES = ("ilp", "propagation", "recursive")
MESHES = (("1", 1), ("2", 2), ("3", 3), ("4", 4), ("2x2", 4))
# On a GPU, attention computes each row in parts, in scratch memory, until all multiprocessors have
# work: of small models that is most of what they take.
MOST_GPU_SCRATCH = 4 << 20
# Which of several cases a model takes, so that all models together take all.
TURN = zlib.crc32(os.environ["AUTOPAR_MODEL"].encode())


def searches_of(meshes, offset=0):
    """One search for each mesh, others for another model."""
    turn = TURN + offset
    return [(mesh, ranks, search)
            for number, (mesh, ranks) in enumerate(meshes)
            for search in (SEARCHES if ALL_CASES else [SEARCHES[(turn + number) % len(SEARCHES)]])]  # fmt: skip


class ZooTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])

    def check(self, bundle, meta, launchers=("threads", "mpi")):
        """Runs the bundle in one process and under MPI: outputs and bytes, and measured peak memory,
        which a plan knows. One that is not for CPUs alone knows what a GPU takes, if that is more."""
        ranks = len(meta["ranks"])
        is_for_cpus = json.loads((bundle / "device.json").read_text()).get("runs_on") == "cpu"
        of_gpu = 0 if is_for_cpus else MOST_GPU_SCRATCH
        starts = {"threads": autopar, "mpi": lambda *a: mpirun(ranks, *a)}
        for launcher in launchers:
            out = self.tmp / f"out-{launcher}"
            done = starts[launcher](
                "run", "--dir", bundle, *self.model.input_options(), "--output-dir", out, "--json"
            )
            measured = json.loads(done.stdout)
            self.assertLessEqual(self.model.error_of(out), self.model.tolerance, launcher)
            self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"], launcher)
            for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
                predicted, weights = rank["peak_bytes"], rank["weight_bytes"]
                self.assertLessEqual(peak, predicted, launcher)
                self.assertLessEqual(predicted - weights, 1.5 * (peak - weights) + of_gpu, launcher)
            shutil.rmtree(out)
        if "mpi" in launchers and onnx_runtime_shards.IS_BUILT:
            self.check_in_onnx_runtime(bundle)

    def check_in_onnx_runtime(self, bundle):
        if os.environ["AUTOPAR_MODEL"] == "bert-dynamic" and not ADDS_BYTES_EXACTLY:
            return  # at no level of optimisation are its sums of products of bytes exact there
        level = onnx_runtime_shards.level_of(os.environ["AUTOPAR_MODEL"])
        with mock.patch.object(onnx_runtime_shards, "OPTIMIZATION", level):
            made = onnx_runtime_shards.run_in_threads(bundle, self.model.inputs)
        self.assertEqual(set(made), set(self.model.outputs))
        for name, expected in self.model.outputs.items():
            self.assertLessEqual(relative_error(expected, made[name]), self.model.tolerance, name)

    def test_memory_on_the_cpu_is_known_and_a_limit_that_holds_is_not_refused(self):
        for mesh, ranks, search in searches_of(MESHES):
            with self.subTest(mesh=mesh, search=search):
                bundle = self.tmp / f"{search}-{mesh}"
                options = ("--mesh", mesh, "--device", "cpu", "--time-limit", 5)
                meta = self.model.partition(bundle, ranks, *options, "--search", search)
                self.check(bundle, meta, ["threads"])
                if search == "ilp":
                    self.check_limit(meta, ranks, *options)

    def check_limit(self, meta, ranks, *options):
        """What a plan needs is enough for one. The search sums what is alive; how shards pack and
        fuse it differs by a little."""
        limit = round(1.05 * max(rank["peak_bytes"] for rank in meta["ranks"]))
        out = self.tmp / "within"
        within = self.model.partition(out, ranks, *options, "--memory", limit)
        self.assertLessEqual(max(rank["peak_bytes"] for rank in within["ranks"]), limit)
        shutil.rmtree(out)

    def test_the_best_plan(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                bundle = self.tmp / f"bundle{ranks}"
                meta = self.model.partition(bundle, ranks, "--time-limit", 5)
                self.assertEqual(len(meta["ranks"]), ranks)
                if ranks > 1:
                    self.assertTrue(meta["profiles"][0]["collectives"], "the split communicates nothing")
                has_mpi = ALL_CASES or ranks == 2 + TURN % 3
                self.check(bundle, meta, ["threads", "mpi"] if has_mpi else ["threads"])
                self.check_limit(meta, ranks, "--time-limit", 5)

    def test_every_search(self):
        for mesh, ranks, search in searches_of(MESHES[1:], offset=2):
            if (mesh, search) == (str(ranks), "ilp"):
                continue  # as above
            with self.subTest(mesh=mesh, search=search):
                bundle = self.tmp / f"{search}-{mesh}"
                meta = self.model.partition(
                    bundle, ranks, "--mesh", mesh, "--search", search, "--time-limit", 5
                )
                self.assertEqual(meta["plan"]["search"], search)
                self.check(bundle, meta, ["threads"])

    def test_verify_agrees_and_sees_another_model(self):
        bundle = self.tmp / "bundle"
        self.model.partition(bundle, 2)
        autopar("verify", self.model.file, bundle, *self.model.constant_options())
        out = self.tmp / "out"  # verify compares autopar with itself
        autopar("run", "--dir", bundle, *self.model.input_options(), "--output-dir", out)
        self.assertLessEqual(self.model.error_of(out), self.model.tolerance)

    def test_pinned_plan_on_a_two_by_two_mesh(self):
        strategies = {
            # every split over both axes at once
            "both": (4, lambda position: "01"),
            # neighbours on different axes, so that tensors move between them
            "alternating": (2, lambda position: str(position // 3 % 2)),
        }
        for name, (ranks, axes_of) in strategies.items():
            with self.subTest(name):
                line = self.tmp / f"line-{name}"
                self.model.partition(line, ranks)
                plan = json.loads((line / "plan.json").read_text())
                strategy = self.tmp / f"{name}.json"
                strategy.write_text(json.dumps(over_axes(plan, axes_of)))
                bundle = self.tmp / f"mesh-{name}"
                meta = self.model.partition(
                    bundle, 4, "--mesh", "2x2", "--strategy", strategy, "--memory", "device",
                    "--loop", "none",  # what is pinned knows nothing of states
                )
                self.assertEqual([axis["size"] for axis in meta["stages"][0]["mesh"]], [2, 2])
                self.check(bundle, meta)


class HalfTest(TemporaryFolderTest):
    def test_float16_is_within_its_own_rounding_of_float32(self):
        if Model(os.environ["AUTOPAR_MODEL"]).constant_options():
            self.skipTest("what makes half types of a model leaves the branches of an If as they are")
        model = tiny_models.load(os.environ["AUTOPAR_MODEL"], TensorProto.FLOAT16, self.tmp)
        shapes = [
            option
            for name, shape in model.shapes().items()
            for option in ("--shape", f"{name}={'x'.join(map(str, shape))}")
        ]
        # Rounding is of the kernels, not of the search.
        for mesh, ranks, search in searches_of(MESHES):
            with self.subTest(mesh=mesh, search=search):
                bundle, out = self.tmp / f"bundle-{mesh}-{search}", self.tmp / "out"
                autopar(
                    "partition", model.file, *shapes, "--ngpus", ranks, "--mesh", mesh,
                    "--search", search, "--time-limit", 5, "--out", bundle,
                )  # fmt: skip
                meta = json.loads((bundle / "meta-info.json").read_text())
                done = autopar(
                    "run", "--dir", bundle, *model.input_options, "--output-dir", out, "--json"
                )
                # Partial sums of several ranks are rounded, too, before they are added.
                allowed = model.tolerance * (1 if ranks == 1 else 1.5)
                self.assertLessEqual(model.error_of(out), allowed)
                measured = json.loads(done.stdout)
                self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])
