"""The search is no worse than the Megatron plan, priced by the same cost model."""

import json
import re

from megatron import megatron_pins
from support import PLANNED, Model, TemporaryFolderTest, autopar

class ExpertPlanTest(TemporaryFolderTest):
    def plan(self, model, memory, *more):
        done = autopar(
            "plan", model.file, *model.shape_options(), "--ngpus", 4, "--memory", memory, "--json",
            *more,
        )
        return json.loads(done.stdout)

    def megatron(self, model, best):
        pins, rows = megatron_pins(model.file, best)
        self.assertGreaterEqual(rows, 4, "two layers have two row-parallel projections each")
        strategy = self.tmp / "megatron.json"
        strategy.write_text(json.dumps({"operators": pins}))
        plan = self.plan(model, "fair", "--strategy", strategy)
        pinned = {entry["name"]: entry for entry in plan["operators"]}
        reduced = sum(pinned[pin["name"]]["reductions"] == ["all-reduce"] for pin in pins)
        self.assertEqual(reduced, rows, "the pinned plan is not Megatron's")
        return plan["summary"]["cost_seconds"]

    def test_costs_no_more_than_megatron(self):
        names = [name for name in PLANNED if re.match("gpt2|bert|llama", name)]
        self.assertEqual(len(names), 6, names)
        for name in names:
            with self.subTest(name):
                model = Model(name)
                best = self.plan(model, "fair")["summary"]
                megatron = self.megatron(model, self.plan(model, "fair"))
                self.assertLessEqual(best["cost_seconds"], megatron * (1 + 1e-9))
                limit = best["one_device_bytes"] * 9 // 20
                limited = self.plan(model, limit)["summary"]
                self.assertLessEqual(limited["peak_bytes"], limit)
                self.assertLessEqual(limited["cost_seconds"], megatron * (1 + 1e-9))
