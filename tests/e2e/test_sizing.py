"""How many devices, and which: `plan` with lists."""

import json
import unittest

from support import MODELS, TemporaryFolderTest, autopar
from test_file_formats import schema

MLP = (MODELS / "mlp-dynamo" / "model.onnx", "--shape", "x=8x48")
GPT2 = (MODELS / "gpt2-dynamo" / "model.onnx",)
LISTS = ("--ngpus", "1,2,4", "--device", "h100,l4")


def plan(*options, expect=0):
    return autopar("plan", *options, expect=expect)


class SizingTest(TemporaryFolderTest):
    def test_table_and_json_tell_the_same(self):
        prices = ("--price", "h100=2.5,l4=0.8")
        told = json.loads(plan(*GPT2, *LISTS, *prices, "--json").stdout)
        schema("lib/planner/sizing.schema.json").validate(told)
        self.assertEqual(
            [(row["device"], row["ngpus"]) for row in told["rows"]],
            [(device, n) for device in ("h100", "l4") for n in (1, 2, 4)],
        )
        self.assertEqual(told["price_of_a_million"], "tokens")
        self.assertEqual([row["first_that_fits"] for row in told["rows"]], [True] + [False] * 5)
        price = [row["plan"]["price_of_a_million"] for row in told["rows"]]
        self.assertEqual([row["cheapest"] for row in told["rows"]].index(True), price.index(min(price)))
        for row in told["rows"]:
            rate = {"h100": 2.5, "l4": 0.8}[row["device"]]
            of_plan = row["plan"]
            self.assertAlmostEqual(of_plan["tokens_a_second"], 64 / of_plan["seconds"], delta=1)
            paid = rate * row["ngpus"] / 3600 / of_plan["tokens_a_second"] * 1e6
            self.assertAlmostEqual(of_plan["price_of_a_million"], paid, delta=1e-9)
        alone = json.loads(plan(*GPT2, "--ngpus", 2, "--device", "l4", "--json").stdout)["summary"]
        self.assertEqual(told["rows"][4]["plan"]["seconds"], alone["cost_seconds"])
        self.assertEqual(told["rows"][4]["plan"]["peak_bytes"], alone["peak_bytes"])

        text = plan(*GPT2, *LISTS, *prices).stdout
        self.assertRegex(text, r"^Assumed: batch 1, sequence 64")
        self.assertRegex(text, r"(?m)^device +ngpus +a run +tokens/s +communication +a rank: weights")
        self.assertRegex(text, r"(?m)^h100 +1 .* 1\.00 +100 % .*the first that fits")
        self.assertEqual(text.count("the cheapest"), 1)
        self.assertEqual(len(text.splitlines()), 8)

    def test_a_model_that_fits_several_devices_alone(self):
        needed = json.loads(plan(*MLP, "--ngpus", 1, "--json").stdout)["summary"]["peak_bytes"]
        device = {
            "name": "small",
            "source": "made up",
            "flops_per_second": {"float32": 1e12},
            "memory_bytes_per_second": 1e11,
            "launch_seconds": 4e-6,
            "memory_bytes": int(needed * 0.75),
            "links": [{"latency_seconds": 1e-6, "bytes_per_second": 1e10}],
        }
        file = self.tmp / "small,odd.json"  # a file's name may have a comma
        file.write_text(json.dumps(device))
        done = plan(*MLP, "--ngpus", "1,2", "--device", file)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[1], r" 1 .*none: needs .* a device, which has ")
        self.assertRegex(lines[2], r" 2 .*proven, the first that fits$")

    def test_single_values_are_plans_as_before(self):
        text = plan(*MLP, "--ngpus", 1).stdout
        self.assertRegex(text, r"^mesh 1, device h200\n")
        self.assertIn("operators, those of repeated layers once", text)

    def test_what_is_refused(self):
        for options, code, line in (
            (("--ngpus", "1,2,1"), 1, "--ngpus has 1 twice"),
            (("--ngpus", "0,2"), 1, "--ngpus 0: give at least 1"),
            (("--ngpus", "1,2", "--device", "h100,h99"), 1, "device 'h99' is neither"),
            (("--ngpus", "1,2", "--mesh", "1x2"), 1, "--mesh 1x2: --ngpus is a list"),
            (("--ngpus", "1,2", "--price", "l4=1"), 1, "--price l4: --device does not name it"),
            (("--ngpus", "1,2", "--price", "h200"), 1, "--price h200: give DEVICE=PRICE"),
            (("--ngpus", "1,two"), 2, "--ngpus"),
            (("--ngpus", "1,"), 2, "--ngpus"),
            (("--ngpus", "1,2", "--simulate", self.tmp / "trace"), 2, "--simulate"),
            (("--ngpus", "1,2", "--explain", "*"), 2, "--explain"),
            (("--ngpus", "1,2", "--compare", "a", "b"), 2, "--compare"),
        ):
            done = plan(*MLP, *options, expect=code)
            self.assertIn(line, done.stderr, options)
            self.assertEqual(done.stdout, "")
        autopar("partition", *MLP, "--ngpus", "1,2", "--out", self.tmp / "out", expect=2)


if __name__ == "__main__":
    unittest.main()
