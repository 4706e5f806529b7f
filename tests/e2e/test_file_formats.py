"""The JSON schemas of plan.json, of device files and of what --json prints: they accept what autopar
writes, refuse what it refuses, and know every field."""

import json
import unittest

import jsonschema
from support import MODELS, SOURCE, TemporaryFolderTest, autopar

MLP = (MODELS / "mlp-dynamo" / "model.onnx", "--shape", "x=8x48")
LLAMA = (
    MODELS / "llama-torchscript" / "model.onnx",
    "--shape", "input_ids=1x16", "--shape", "attention_mask=1x16",
)  # fmt: skip
PROFILES = (MODELS / "gpt2-dynamo" / "model.onnx", "--shape", "sequence=1,16")
BOX = {
    "name": "box",
    "source": "made up",
    "flops_per_second": {"float32": 1e12, "float16": 4e12},
    "memory_bytes_per_second": 1e11,
    "launch_seconds": 4e-6,
    "memory_bytes": 8e9,
    "links": [{"latency_seconds": 1e-6, "bytes_per_second": 1e10}],
}
RATES = [{"operations": 1e5, "rate": 2e10}, {"operations": 1e9, "rate": 9e10}]


def schema(name):
    loaded = json.loads((SOURCE / name).read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


def without(document, field):
    return {key: value for key, value in document.items() if key != field}


class PlanSchemaTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.schema = schema("lib/plan/plan.schema.json")

    def plan(self, *options):
        return json.loads(autopar("plan", *options, "--json").stdout)

    def test_it_accepts_plans(self):
        for options in (
            (*MLP, "--ngpus", 4),
            (*LLAMA, "--ngpus", 4, "--mesh", "2x2", "--search", "recursive"),
            (*MLP, "--ngpus", 4, "--mesh", "auto", "--memory", "device"),
            (*MLP, "--ngpus", 4, "--stages", 2, "--microbatches", 2),
            (*MLP, "--ngpus", 4, "--stages", "auto", "--device", "l4-ethernet"),
            (*PROFILES, "--ngpus", 4, "--profile-weights", "64,1"),
        ):
            self.schema.validate(self.plan(*options))

    def test_it_accepts_the_plan_of_a_bundle(self):
        autopar("partition", *MLP, "--ngpus", 2, "--out", self.tmp / "bundle")
        self.schema.validate(json.loads((self.tmp / "bundle" / "plan.json").read_text()))

    def test_it_knows_every_field(self):
        profiles = self.plan(*PROFILES, "--ngpus", 4)
        self.assertFalse(self.schema.is_valid(without(profiles, "profiles")))
        for place in (profiles["profiles"][0], profiles["profiles"][0]["summary"]):
            place["more"] = 1
            self.assertFalse(self.schema.is_valid(profiles))
            del place["more"]
        plan = self.plan(*MLP, "--ngpus", 4)
        for field in (*self.schema.schema["required"], "collectives"):
            self.assertFalse(self.schema.is_valid(without(plan, field)), field)
        for place in (plan, plan["summary"], plan["operators"][0]):
            place["more"] = 1
            self.assertFalse(self.schema.is_valid(plan))
            del place["more"]
        self.schema.validate(plan)
        for spec in ("S", "R0", "RP0", "R+P"):
            plan["operators"][0]["outputs"] = [spec]
            self.assertFalse(self.schema.is_valid(plan), spec)


class DeviceSchemaTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.schema = schema("lib/cost/device.schema.json")

    def is_accepted(self, device):
        """Whether autopar accepts it; the schema must agree."""
        file = self.tmp / "device.json"
        file.write_text(json.dumps(device))
        try:
            autopar("plan", *MLP, "--ngpus", 2, "--device", file)
            accepted = True
        except AssertionError:
            accepted = False
        self.assertEqual(self.schema.is_valid(device), accepted, device)
        return accepted

    def test_it_accepts_what_calibrate_writes(self):
        file = self.tmp / "device.json"
        autopar("calibrate", "--quick", "--ranks", 2, "--threads", 1, "--device", "cpu", "--out", file)
        self.schema.validate(json.loads(file.read_text()))

    def test_it_accepts_what_autopar_accepts(self):
        link = BOX["links"][0]
        for more in (
            {},
            {"flops_per_second": {"float32": RATES, "float16": 1e12}},
            {"memory_bytes_per_second": [{"bytes": 1e5, "rate": 8e10}, {"bytes": 1e8, "rate": 1e10}]},
            {"weight_bytes_per_second": 2e10, "overlap": 0.2, "fuses": True, "runs_on": "cpu"},
            {"element_seconds": {"Tanh": 1e-9}},
            {"links": [link, link], "gpus_per_node": 8, "nodes": 128},
            {"links": [{**link, "all-reduce": link, "all-to-all": link}]},
        ):
            self.assertTrue(self.is_accepted({**BOX, **more}))

    def test_it_accepts_the_example_of_the_documents(self):
        page = (SOURCE / "docs" / "costs.md").read_text()
        self.assertTrue(self.is_accepted(json.loads(page.split("```json\n")[1].split("```")[0])))

    def test_it_refuses_what_autopar_refuses(self):
        for field in BOX:
            self.assertFalse(self.is_accepted(without(BOX, field)), field)
        link = BOX["links"][0]
        for wrong in (
            {"more": 1},
            {"name": 1},
            {"flops_per_second": {"float16": 1e12}},
            {"flops_per_second": {"float32": []}},
            {"flops_per_second": {"float32": [{"bytes": 1e5, "rate": 2e10}]}},
            {"memory_bytes_per_second": 0},
            {"memory_bytes": 1e19},
            {"launch_seconds": -1},
            {"overlap": 2},
            {"fuses": 1},
            {"runs_on": "tpu"},
            {"element_seconds": {"Tanh": 1001}},
            {"links": []},
            {"links": [without(link, "latency_seconds")]},
            {"links": [{**link, "broadcast": link}]},
            {"gpus_per_node": 8},
            {"nodes": 2},
        ):
            self.assertFalse(self.is_accepted({**BOX, **wrong}), wrong)

    def test_it_has_the_fields_that_autopar_names(self):
        file = self.tmp / "device.json"
        file.write_text(json.dumps({**BOX, "more": 1}))
        told = autopar("plan", *MLP, "--ngpus", 2, "--device", file, expect=1).stderr
        named = told.split("it may be ")[1].strip().split(", ")
        self.assertEqual(sorted(named), sorted(self.schema.schema["properties"]))


class PrintedTest(TemporaryFolderTest):
    """What commands print with --json."""

    def printed(self, name, *arguments):
        told = json.loads(autopar(*arguments, "--json").stdout)
        self.assertEqual(told["version"], 1)
        schema(name).validate(told)
        with self.assertRaises(jsonschema.ValidationError):
            schema(name).validate(without(told, "version"))
        return told

    def test_of_a_bundle(self):
        for model, options in ((MLP[0], MLP[1:]), (PROFILES[0], PROFILES[1:])):
            out = self.tmp / model.parent.name
            self.printed(
                "apps/autopar/partition.schema.json", "partition", model, *options, "--ngpus", 2, "--out", out
            )
            run = ("run", "--dir", out, "--random-inputs", 1)
            self.printed("apps/autopar/run.schema.json", *run, "--repeat", 2)
            self.printed("apps/autopar/verify.schema.json", "verify", model, out)
            told = json.loads(autopar("inspect", out, "--json").stdout)
            schema("lib/bundle/meta-info.schema.json").validate(told)

    def test_of_models(self):
        for name in ("mlp-dynamo", "detector-yolo", "t5-merged"):
            self.printed("apps/autopar/inspect.schema.json", "inspect", MODELS / name / "model.onnx")

    def test_of_plans(self):
        for options in (MLP, PROFILES):
            explain = ("plan", *options, "--ngpus", 2, "--explain", "*")
            self.printed("lib/search/explanation.schema.json", *explain)
        files = []
        for search in ("ilp", "recursive"):
            files.append(self.tmp / f"{search}.json")
            done = autopar("plan", *MLP, "--ngpus", 2, "--search", search, "--json")
            files[-1].write_text(done.stdout)
        self.printed("lib/plan/comparison.schema.json", "plan", "--compare", *files)



if __name__ == "__main__":
    unittest.main()
