"""plan --simulate writes the trace that run --profile writes: the same events in the same order."""

import json
from collections import defaultdict

from support import Model, TemporaryFolderTest, autopar


def lanes(file):
    """Events in order, node and microbatch, by rank and lane."""
    events = json.loads(file.read_text())["traceEvents"]
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    found = defaultdict(list)
    spans = [e for e in events if e["ph"] == "X"]
    for event in sorted(spans, key=lambda e: (e["ts"], e["ts"] + e["dur"])):
        lane = names[event["pid"], event["tid"]]
        # CPUs compute and communicate in one lane.
        lane = lane if lane in ("receive", "send") else "work"
        found[event["pid"], lane].append((event["args"]["microbatch"], event["name"]))
    return found


class SimulateTest(TemporaryFolderTest):
    def check(self, name, *options, shape=None):
        model = Model(name)
        if shape:
            model.shape_options = lambda: ["--shape", shape]
            model.input_options = lambda: ["--random-inputs", 1]
        bundle, simulated, measured = (
            self.tmp / name for name in ("bundle", "simulated.json", "measured.json")
        )
        model.partition(bundle, *options, "--force")
        autopar("plan", model.file, *model.shape_options(), "--ngpus", *options,
                "--simulate", simulated)  # fmt: skip
        autopar("run", "--dir", bundle, *model.input_options(), "--profile", measured)
        in_simulation, in_run = lanes(simulated), lanes(measured)
        self.assertEqual(set(in_simulation), set(in_run))
        for lane, events in in_run.items():
            with self.subTest(lane=lane):
                self.assertEqual(len(set(events)), len(events))
                # One of several fused operators gives its name; what a rewrite puts
                # before an operator is called after it, and counts with it.
                events = list(dict.fromkeys((k, name.split(":rotated")[0]) for k, name in events))
                of_run = set(events)
                common = [event for event in in_simulation[lane] if event in of_run]
                self.assertEqual(common, events)
        return in_run, json.loads(simulated.read_text())["traceEvents"]

    def test_one_stage(self):
        found, _ = self.check("bert-dynamo", 2)
        self.assertEqual({lane for _, lane in found}, {"work"})

    def test_two_stages_of_two_ranks(self):
        found, _ = self.check("gpt2-torchscript", 4, "--stages", 2, "--mesh", 2)
        self.assertIn((0, "send"), found)
        self.assertIn((2, "receive"), found)

    def test_microbatches(self):
        found, _ = self.check(
            "llama-dynamo", 3, "--stages", 3, "--microbatches", 2, shape="input_ids=4x16"
        )
        for rank in range(3):
            self.assertEqual({k for k, _ in found[rank, "work"]}, {0, 1})

    def test_a_mesh_larger_than_any_machine_here(self):
        model = Model("gpt2-dynamo")
        trace = self.tmp / "trace.json"
        done = autopar("plan", model.file, *model.shape_options(), "--ngpus", 128, "--stages", 2,
                       "--mesh", "64", "--memory", "device", "--simulate", trace, "--json")  # fmt: skip
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {0, 64})
        end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
        cost = json.loads(done.stdout)["summary"]["cost_seconds"]
        self.assertAlmostEqual(end * 1e-6, cost, delta=0.01 * cost)
