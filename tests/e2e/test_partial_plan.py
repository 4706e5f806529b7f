"""GPT-2's two embeddings are added as pending sums, by a pin: outputs and bytes are what they must be."""

import json
import math

from support import TOLERANCE, Model, TemporaryFolderTest, autopar

ADD = "node_add_1"  # of the token's and the position's embedding


class PartialPlanTest(TemporaryFolderTest):
    def test_embeddings_are_added_before_they_are_reduced(self):
        model = Model("gpt2-dynamo")
        for mesh, axes in {"2": "0", "3": "0", "4": "0", "2x2": "01"}.items():
            with self.subTest(mesh=mesh):
                pins = self.tmp / "pins.json"
                partial = f"RRR+P{axes}"
                pins.write_text(json.dumps({"operators": [{"name": ADD, "inputs": [partial, partial]}]}))
                ranks = math.prod(map(int, mesh.split("x")))
                bundle, out = self.tmp / f"bundle{mesh}", self.tmp / f"out{mesh}"
                meta = model.partition(bundle, ranks, "--mesh", mesh, "--strategy", pins)

                written = json.loads((bundle / "plan.json").read_text())["operators"]
                add = next(entry for entry in written if entry["name"] == ADD)
                self.assertEqual(add["inputs"], [partial, partial])
                done = autopar("run", "--dir", bundle, *model.input_options(), "--output-dir", out, "--json")
                self.assertLessEqual(model.error_of(out), TOLERANCE)
                self.assertEqual(json.loads(done.stdout)["collectives"], meta["profiles"][0]["collectives"])

                again = self.tmp / f"again{mesh}"
                model.partition(again, ranks, "--mesh", mesh, "--strategy", bundle / "plan.json")
                self.assertEqual(json.loads((again / "plan.json").read_text())["operators"], written)
