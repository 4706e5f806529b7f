"""What `autopar plan` tells: the plan, an operator's candidates, two plans apart."""

import json
import re

from support import Model, TemporaryFolderTest, autopar


class PlanTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("gpt2-torchscript")

    def plan(self, *more, ngpus=4, model=None, expect=0):
        model = model or self.model
        return autopar(
            "plan", model.file, *model.shape_options(), "--ngpus", ngpus, *more, expect=expect
        )

    def plan_file(self, name, *more, **options):
        file = self.tmp / name
        file.write_text(self.plan("--json", *more, **options).stdout)
        return file

    def refuse(self, done, *parts):
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])


class ReportTest(PlanTest):
    def test_repeated_layers_are_told_once(self):
        text = self.plan().stdout
        rows = re.findall(r"^ +(\d+)x +(\S+) .*?(\S+)(?: \(.*\))?$", text, re.M)
        products = [row for row in rows if row[1] in ("MatMul", "Gemm")]
        self.assertTrue(any(int(count) >= 2 and "h.*" in name for count, _, name in products), text)
        cheap = int(re.search(r"and (\d+) cheap ones", text).group(1))
        entries = json.loads(self.plan("--json").stdout)["operators"]
        operators = sum("inputs" in entry for entry in entries)
        self.assertEqual(sum(int(count) for count, _, _ in rows) + cheap, operators)
        self.assertLess(len(rows), operators / 4)

    def test_of_all_meshes_the_best_is_kept(self):
        mlp = Model("mlp-dynamo")
        best = json.loads(self.plan("--mesh", "auto", "--json", model=mlp).stdout)
        told = {tuple(trial["mesh"]): trial["cost_seconds"] for trial in best["summary"]["meshes"]}
        self.assertEqual(set(told), {(4,), (2, 2)})
        for mesh, cost in told.items():
            text = "x".join(map(str, mesh))
            own = json.loads(self.plan("--mesh", text, "--json", model=mlp).stdout)
            self.assertEqual(own["summary"]["cost_seconds"], cost)
            self.assertNotIn("meshes", own["summary"])
        self.assertEqual(best["summary"]["cost_seconds"], min(told.values()))
        self.assertEqual(told[tuple(best["mesh"])], min(told.values()))
        self.assertTrue(best["summary"]["proven_optimal"])
        text = self.plan("--mesh", "auto", model=mlp).stdout
        self.assertRegex(text, r"meshes tried:\n +4 .*\n +2x2 ")
        meta = mlp.partition(self.tmp / "bundle", 4, "--mesh", "auto")
        self.assertEqual([axis["size"] for axis in meta["stages"][0]["mesh"]], best["mesh"])
        autopar("run", "--dir", self.tmp / "bundle", *mlp.input_options(), "--output-dir", self.tmp / "out")
        self.assertLessEqual(mlp.error_of(self.tmp / "out"), mlp.tolerance)

    def test_memory_collectives_and_gap_are_told(self):
        text = self.plan().stdout
        self.assertRegex(text, r"^mesh 4, device h200")
        self.assertRegex(text, r"proven optimal|gap \d")
        self.assertRegex(text, r"the peak is where \S+ \S+ runs")
        self.assertRegex(text, r"(all-gather|all-reduce|reduce-scatter) +over mesh axis 0 .* times")

    def test_plan_json_tells_the_communication_of_the_bundle(self):
        out = self.tmp / "bundle"
        meta = self.model.partition(out, 4)
        plan = json.loads((out / "plan.json").read_text())
        told = {
            (use["kind"], tuple(use["mesh_axes"])): use["bytes"]
            for use in plan["collectives"]
            if use["kind"] != "slice"
        }
        written = {
            (use["kind"], tuple(use["mesh_axes"])): use["bytes"]
            for use in meta["profiles"][0]["collectives"]
        }
        self.assertTrue(written)
        self.assertEqual(told, written)


class ExplainTest(PlanTest):
    def explain(self, name, *more, **options):
        return self.plan("--explain", name, *more, **options)

    def test_fixing_a_candidate_costs_what_was_said(self):
        best = json.loads(self.plan("--json").stdout)
        name = next(
            entry["name"] for entry in best["operators"] if "c_fc" in entry["name"] and "inputs" in entry
        )
        told = json.loads(self.explain(name, "--json").stdout)
        self.assertEqual(told["operator"], name)
        self.assertTrue(told["candidates"][0]["chosen"])
        self.assertGreaterEqual(len(told["candidates"]), 3)
        for candidate in told["candidates"][1:4]:
            self.assertEqual(candidate["proof"], "exact")
            specs, _, reduction = candidate["strategy"].partition(" ")
            inputs, outputs = specs.split("->")
            strategy = self.tmp / "strategy.json"
            pin = {
                "name": name,
                "inputs": inputs.split(","),
                "outputs": outputs.split(","),
                "reductions": [reduction or "none"],
            }
            strategy.write_text(json.dumps({"operators": [pin]}))
            pinned = json.loads(self.plan("--json", "--strategy", strategy).stdout)
            self.assertAlmostEqual(
                pinned["summary"]["cost_seconds"] - best["summary"]["cost_seconds"],
                candidate["worse_by_seconds"],
                delta=1e-10,
            )

    def test_text_for_a_glob(self):
        text = self.explain("*h.*c_fc*MatMul*|*", expect=1)
        self.refuse(text, "no operator", "nearest names")
        text = self.explain("*c_proj*").stdout
        self.assertIn("chosen", text)
        self.assertIn("proven", text)
        self.assertIn("by itself", text)

    def test_unknown_operator(self):
        self.refuse(self.explain("/no/such", expect=1), "'/no/such'", "nearest names are '/")


class CompareTest(PlanTest):
    def compare(self, a, b, *more, expect=0):
        return autopar("plan", "--compare", a, b, *more, expect=expect)

    def test_two_plans(self):
        fair = self.plan_file("fair.json")
        free = self.plan_file("free.json", "--memory", "device")
        text = self.compare(fair, free).stdout
        self.assertRegex(text, r"\d+ of \d+ operators differ")
        self.assertRegex(text, r"h\.\*")
        told = json.loads(self.compare(fair, free, "--json").stdout)
        plans = [json.loads(file.read_text()) for file in (fair, free)]
        for side, plan in zip("ab", plans):
            self.assertEqual(told[side]["cost_seconds"], plan["summary"]["cost_seconds"])
            self.assertEqual(told[side]["peak_bytes"], plan["summary"]["peak_bytes"])
        specs = [
            {e["name"]: (e["inputs"], e["outputs"], e["reductions"]) for e in p["operators"] if "inputs" in e}
            for p in plans
        ]
        differing = sum(specs[0][name] != specs[1][name] for name in specs[0])
        self.assertGreater(differing, 0)
        self.assertEqual(sum(each["count"] for each in told["operators"]), differing)
        self.assertFalse(told["same_plan"])

    def test_a_bundle_and_the_file_in_it(self):
        out = self.tmp / "bundle"
        self.model.partition(out, 2)
        self.assertIn("split alike", self.compare(out, out / "plan.json").stdout)

    def test_other_models_and_meshes(self):
        plan = self.plan_file("plan.json", ngpus=2)
        mesh = self.plan_file("mesh.json", ngpus=4)
        self.refuse(self.compare(plan, mesh, expect=1), "mesh", "plan.json", "mesh.json")
        other = self.plan_file("other.json", ngpus=2, model=Model("mlp-torchscript"))
        self.refuse(self.compare(plan, other, expect=1), "different models")

    def test_files_that_are_no_plans(self):
        plan = self.plan_file("plan.json", ngpus=2)
        self.refuse(self.compare(plan, self.tmp / "none.json", expect=1), "none.json")
        self.refuse(self.compare(plan, self.tmp / "..", expect=1), "plan.json")
        bad = self.tmp / "bad.json"
        for text, part in (("{", "no JSON"), ("[]", "no JSON object"), ("{}", "'version'")):
            bad.write_text(text)
            self.refuse(self.compare(bad, plan, expect=1), "bad.json", part)

    def test_wrong_usage(self):
        plan = self.plan_file("plan.json", ngpus=2)
        autopar("plan", "--compare", plan, expect=2)
        autopar("plan", "--compare", plan, plan, "--ngpus", 2, expect=2)
        autopar("plan", self.model.file, "--compare", plan, plan, expect=2)
        autopar("plan", self.model.file, expect=2)
        autopar("plan", "--ngpus", 2, expect=2)
        autopar("plan", expect=2)
