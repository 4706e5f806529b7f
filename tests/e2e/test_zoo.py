"""A sample model, split in every way, gives ONNX Runtime's output and the predicted bytes."""

import json
import os
import shutil

from support import TOLERANCE, Model, TemporaryFolderTest, autopar, mpirun


def over_axes(plan, axes_of):
    """The operators of a one-axis plan with axis 0 written as axes_of(position) says."""
    operators = []
    for position, entry in enumerate(plan["operators"]):
        axes = axes_of(position)
        operators.append(
            {
                key: [spec.replace("0", axes) for spec in value]
                if key in ("inputs", "outputs")
                else value
                for key, value in entry.items()
            }
        )
    return {"operators": operators}


class ZooTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model(os.environ["AUTOPAR_MODEL"])

    def check(self, bundle, meta, ranks):
        """Runs the bundle in one process and under MPI: outputs and bytes, measured peak memory."""
        for launcher, start in {"threads": autopar, "mpi": lambda *a: mpirun(ranks, *a)}.items():
            out = self.tmp / f"out-{launcher}"
            done = start(
                "run", "--dir", bundle, *self.model.input_options(), "--output-dir", out, "--json"
            )
            measured = json.loads(done.stdout)
            self.assertLessEqual(self.model.error_of(out), TOLERANCE, launcher)
            self.assertEqual(measured["collectives"], meta["plan"]["collectives"], launcher)
            for rank, peak in zip(meta["ranks"], measured["peak_bytes"], strict=True):
                self.assertLessEqual(peak, rank["peak_bytes"], launcher)
            shutil.rmtree(out)

    def test_split_over_ranks(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                bundle = self.tmp / f"bundle{ranks}"
                meta = self.model.partition(bundle, ranks)
                self.assertEqual(len(meta["ranks"]), ranks)
                if ranks > 1:
                    self.assertTrue(meta["plan"]["collectives"], "the split communicates nothing")
                self.check(bundle, meta, ranks)

    def test_verify_agrees_and_sees_another_model(self):
        bundle = self.tmp / "bundle"
        self.model.partition(bundle, 2)
        autopar("verify", self.model.file, bundle)

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
                    bundle, 4, "--mesh", "2x2", "--strategy", strategy, "--memory", "device"
                )
                self.assertEqual([axis["size"] for axis in meta["stages"][0]["mesh"]], [2, 2])
                self.check(bundle, meta, 4)
