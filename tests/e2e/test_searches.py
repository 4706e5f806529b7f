"""The quick searches: valid plans of the same space, as good as promised, that run and verify."""

import json
import math
import signal
import subprocess
import time

from support import (
    AUTOPAR,
    PLANNED,
    TOLERANCE,
    Model,
    TemporaryFolderTest,
    autopar,
    wait_until_it_catches,
)

MESHES = {"4": 4, "2x2": 4}
QUICK = ("propagation", "recursive")


class SearchesTest(TemporaryFolderTest):
    def plan(self, model, mesh, search, *more):
        done = autopar(
            "plan", model.file, *model.shape_options(), "--ngpus", MESHES[mesh], "--mesh", mesh,
            "--search", search, "--json", *more,
        )
        return json.loads(done.stdout)

    def test_plans_of_the_zoo_keep_the_fair_share_and_are_near_the_optimum(self):
        proven = 0
        for name in PLANNED:
            model = Model(name)
            for mesh in MESHES:
                best = self.plan(model, mesh, "ilp", "--time-limit", 10)["summary"]
                proven += best["proven_optimal"]
                self.assertEqual(best["lower_bound_from"], "search")
                for search in QUICK:
                    with self.subTest(model=name, mesh=mesh, search=search):
                        found = self.plan(model, mesh, search)["summary"]
                        cost = found["cost_seconds"]
                        self.assertEqual(found["search"], search)
                        self.assertEqual(found["lower_bound_from"], "least operator costs")
                        self.assertGreaterEqual(cost, best["lower_bound_seconds"] * (1 - 1e-9))
                        self.assertLessEqual(found["lower_bound_seconds"], cost)
                        if search == "recursive":
                            self.assertLessEqual(cost, 1.2 * best["cost_seconds"])
        self.assertGreaterEqual(proven, 16, "the comparison is with optima, nearly everywhere")

    def test_the_exact_search_out_of_time_is_no_worse_than_recursion(self):
        model = Model("llama-dynamo")
        stopped = self.plan(model, "2x2", "ilp", "--time-limit", 0)["summary"]
        recursive = self.plan(model, "2x2", "recursive")["summary"]
        self.assertLessEqual(stopped["cost_seconds"], recursive["cost_seconds"])

    def test_plans_of_many_axes_end_in_time_and_run(self):
        model = Model("llama-dynamo")
        for mesh, ranks in (("2x2x2x2", 16), ("2x2x2x2x2", 32)):
            with self.subTest(mesh=mesh):
                bundle, out = self.tmp / mesh, self.tmp / f"out-{mesh}"
                done = autopar(
                    "partition", model.file, *model.shape_options(), "--ngpus", ranks, "--mesh", mesh,
                    "--time-limit", 10, "--out", bundle,
                )  # fmt: skip
                meta = json.loads((bundle / "meta-info.json").read_text())
                sizes = [axis["size"] for axis in meta["stages"][0]["mesh"]]
                self.assertEqual(math.prod(sizes), ranks)
                self.assertLessEqual(len(sizes), 5)
                is_coarser = len(sizes) < mesh.count("2")
                self.assertEqual(is_coarser, f"mesh {mesh} takes too long to search" in done.stderr)
                autopar("run", "--dir", bundle, *model.input_options(), "--output-dir", out)
                self.assertLessEqual(model.error_of(out), model.tolerance)

    def test_a_plan_of_a_coarser_mesh_is_explained_on_that_mesh(self):
        mlp = Model("mlp-dynamo")
        done = autopar(
            "plan", mlp.file, *mlp.shape_options(), "--ngpus", 128, "--mesh", "2x2x2x2x2x2x2",
            "--time-limit", 2, "--explain", "node_gelu",
        )  # fmt: skip
        self.assertIn("mesh 2x2x2x2x2x2x2 takes too long to search", done.stderr)
        self.assertRegex(done.stdout, r"\n +\S+->\S+: chosen\n")

    def test_bound_is_the_exact_searchs(self):
        model = Model("bert-dynamo")
        best = self.plan(model, "4", "ilp")["summary"]
        self.assertTrue(best["proven_optimal"])
        for search in QUICK:
            found = self.plan(model, "4", search, "--bound")["summary"]
            self.assertEqual(found["lower_bound_from"], "search")
            self.assertEqual(found["lower_bound_seconds"], best["cost_seconds"])
            self.assertEqual(
                found["proven_optimal"], found["cost_seconds"] == found["lower_bound_seconds"]
            )

    def test_bundles_run_and_verify(self):
        for name, search, mesh in (
            ("gpt2-dynamo", "recursive", "2x2"),
            ("llama-torchscript", "recursive", "4"),
            ("bert-torchscript", "propagation", "2x2"),
            ("vit-dynamo", "propagation", "4"),
        ):
            with self.subTest(model=name, search=search, mesh=mesh):
                model = Model(name)
                bundle = self.tmp / name
                meta = model.partition(bundle, MESHES[mesh], "--mesh", mesh, "--search", search)
                self.assertEqual(meta["plan"]["search"], search)
                autopar("verify", model.file, bundle)
                out = self.tmp / f"{name}-out"
                done = autopar(
                    "run", "--dir", bundle, *model.input_options(), "--output-dir", out, "--json"
                )
                self.assertLessEqual(model.error_of(out), TOLERANCE)
                measured = json.loads(done.stdout)
                self.assertEqual(measured["collectives"], meta["profiles"][0]["collectives"])

    def test_propagation_keeps_pins(self):
        model = Model("mlp-dynamo")
        best = self.plan(model, "4", "ilp")
        pin = next(entry for entry in best["operators"] if len(entry.get("inputs", [])) >= 2)
        strategy = self.tmp / "pins.json"
        strategy.write_text(json.dumps({"operators": [pin]}))
        plan = self.plan(model, "4", "propagation", "--strategy", strategy)
        self.assertIn(pin, plan["operators"])

    def test_glpk_alone_agrees(self):
        for name in ("mlp-dynamo", "gpt2-dynamo"):
            model = Model(name)
            presolved = self.plan(model, "4", "ilp")["summary"]
            whole = self.plan(model, "4", "ilp", "--no-presolve")["summary"]
            self.assertTrue(presolved["proven_optimal"] and whole["proven_optimal"])
            self.assertEqual(presolved["cost_seconds"], whole["cost_seconds"])

    def test_wrong_usage(self):
        model = Model("mlp-dynamo")
        for options, part in (
            (("--search", "greedy"), "--search"),
            (("--search", "recursive", "--no-presolve"), "--no-presolve"),
        ):
            done = autopar(
                "plan", model.file, *model.shape_options(), "--ngpus", 4, *options, expect=2
            )
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_an_impossible_limit_is_refused_as_by_the_ilp(self):
        model = Model("mlp-dynamo")
        for search in ("ilp", *QUICK):
            done = autopar(
                "plan", model.file, *model.shape_options(), "--ngpus", 4, "--memory", "2KiB",
                "--search", search, expect=1,
            )
            self.assertIn("the smallest known to do is", done.stderr, search)

    def interrupted(self, mesh, delay):
        """A long search's plan after Ctrl-C, so many seconds after it began."""
        model = Model("llama-torchscript")
        command = [
            AUTOPAR, "plan", model.file, "--shape", "input_ids=4x16", "--ngpus", 4, "--mesh", mesh,
            "--memory", 560000, "--time-limit", 3600, "--json",
        ]
        with subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            wait_until_it_catches(process, signal.SIGINT)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            output, error = process.communicate()
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("interrupted", error)
        return json.loads(output)["summary"]

    def test_ctrl_c_ends_a_search_with_the_best_plan_so_far(self):
        for mesh in ("2x2", "auto"):
            for delay in (0, 1):  # at once, there is no plan yet that fits
                with self.subTest(mesh=mesh, delay=delay):
                    plan = self.interrupted(mesh, delay)
                    self.assertFalse(plan["proven_optimal"])
                    self.assertLess(plan["lower_bound_seconds"], plan["cost_seconds"])
                    self.assertLessEqual(plan["peak_bytes"], 560000)
