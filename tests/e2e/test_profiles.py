"""Several profiles, bindings of a model's symbolic dimensions, planned together."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime

from support import MODELS, TemporaryFolderTest, autopar, relative_error

GPT2 = MODELS / "gpt2-dynamo" / "model.onnx"
LLAMA = MODELS / "llama-torchscript" / "model.onnx"
STEP = MODELS / "llama-step-torchscript" / "model.onnx"


def plan(*options, model=GPT2, ngpus=4):
    return autopar("plan", model, "--ngpus", ngpus, *options).stdout


def plan_json(*options, **more):
    return json.loads(plan(*options, "--json", **more))


def weights_of(plan):
    """How the weights lie; of several profiles they have entries without one."""
    return {
        entry["name"]: entry["outputs"][0]
        for entry in plan["operators"]
        if "inputs" not in entry and "profile" not in entry
    }


def external_tensors(file):
    """Where the graph's large weights lie in its data file, by name."""
    model = onnx.load(file, load_external_data=False)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
        if tensor.external_data
    }


def constants(file):
    """A rank's constants by name and data, small ones in the graph, large ones in its data file."""
    model = onnx.load(file, load_external_data=False)
    places = external_tensors(file)
    sizes = {}
    for tensor in model.graph.initializer:
        place = places.get(tensor.name)
        values = None if place else onnx.numpy_helper.to_array(tensor)
        data = tuple(sorted(place.items())) if place else (values.shape, values.tobytes())
        sizes[tensor.name, data] = int(place["length"]) if place else values.nbytes
    return sizes


class ResidentStatesTest(TemporaryFolderTest):
    """States are as long as the profile of steps has them while prompts run, too."""

    def partition(self, *more, **how):
        return autopar("partition", STEP, "--ngpus", 2, "--shape", "sequence=48,1", "--shape",
                       "past_sequence=0,67", "--out", self.tmp / "bundle", *more, **how)  # fmt: skip

    def test_a_rank_is_told_to_hold_them_and_they_count_against_the_limit(self):
        self.partition()
        info = json.loads((self.tmp / "bundle" / "meta-info.json").read_text())
        states = {state["input"] for state in info["states"]}
        prompt, step = info["profiles"]
        peaks = []
        for rank in info["ranks"]:
            beside = 0
            for port in step["inputs"]:
                if port["name"] in states:
                    extents = [end - begin for begin, end in port["ranges"][rank["rank"]]]
                    beside += -(-4 * int(np.prod(extents)) // 64) * 64
            self.assertGreater(beside, 0)
            own = [profile["peak_bytes"][rank["rank"]] for profile in (prompt, step)]
            self.assertEqual(rank["peak_bytes"], max(own[0] + beside, own[1]))
            peaks += own
        # The search keeps each profile's own peak within the limit; states come beside it.
        told = self.partition("--force", "--memory", max(peaks), expect=1).stderr.splitlines()
        self.assertIn("states lie there in runs of all profiles", told[-1])


class ResidentWeightsTest(TemporaryFolderTest):
    """Constants that are folded for one profile's shapes stay on the rank while others run."""

    def test_a_rank_is_told_to_hold_the_constants_of_all_profiles(self):
        bundle = self.tmp / "bundle"
        autopar("partition", LLAMA, "--shape", "sequence=1,96", "--ngpus", 2, "--device", "cpu", "--out", bundle)
        meta = json.loads((bundle / "meta-info.json").read_text())
        for number, rank in enumerate(meta["ranks"]):
            of_profiles = [constants(bundle / file["name"]) for file in rank["files"][:2]]
            union = {**of_profiles[0], **of_profiles[1]}
            self.assertEqual(rank["weight_bytes"], sum(union.values()))
            self.assertGreater(len(union), max(map(len, of_profiles)))
            for profile, own in zip(meta["profiles"], of_profiles):
                self.assertGreater(profile["peak_bytes"][number], sum(union.values()))
                self.assertLessEqual(profile["peak_bytes"][number], rank["peak_bytes"])
                self.assertLess(sum(own.values()), sum(union.values()))
        for sequence in (1, 96):
            for name in ("input_ids", "attention_mask"):
                np.save(self.tmp / f"{name}.npy", np.ones((1, sequence), np.int64))
            ran = json.loads(autopar(
                "run", "--dir", bundle, "--json", "--input", f"input_ids={self.tmp}/input_ids.npy",
                "--input", f"attention_mask={self.tmp}/attention_mask.npy").stdout)  # fmt: skip
            for measured, predicted in zip(ran["peak_bytes"], ran["predicted_peak_bytes"], strict=True):
                self.assertLessEqual(measured, predicted)


class ProfileBundleTest(TemporaryFolderTest):
    """A bundle of two profiles has a graph for each, and each weight once a rank."""

    DEVICES = ("--ngpus", 3)

    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        autopar("partition", GPT2, "--shape", "sequence=1,16", "--profile-weights", "8,1", *self.DEVICES,
                "--memory", "device", "--device", "cpu", "--out", self.bundle)  # fmt: skip

    def test_each_weight_is_written_once(self):
        meta = json.loads((self.bundle / "meta-info.json").read_text())
        self.assertEqual([p["binding"] for p in meta["profiles"]], ["sequence=1", "sequence=16"])
        for rank in meta["ranks"]:
            step, prompt = (external_tensors(self.bundle / f["name"]) for f in rank["files"][:2])
            both = step.keys() & prompt.keys()
            self.assertGreater(len(both), 3)
            for name in both:
                self.assertEqual(step[name], prompt[name], name)

    def test_profiles_and_other_shapes_are_run_as_by_onnx_runtime(self):
        session = onnxruntime.InferenceSession(GPT2)
        [port] = session.get_inputs()
        for sequence in (1, 16, 3, 11, 40):
            with self.subTest(sequence=sequence):
                tokens = np.arange(2 * sequence).reshape(2, sequence) % 60
                tokens = tokens[:1] if sequence % 2 else tokens
                np.save(self.tmp / "tokens.npy", tokens)
                done = autopar("run", "--dir", self.bundle, "--output-dir", self.tmp / "out", "--json",
                               "--input", f"{port.name}={self.tmp}/tokens.npy")  # fmt: skip
                measured = json.loads(done.stdout)
                self.assertEqual(measured["collectives"], measured["predicted_collectives"])
                for most, peak in zip(measured["predicted_peak_bytes"], measured["peak_bytes"]):
                    self.assertLessEqual(peak, most)
                [expected] = session.run(None, {port.name: tokens})
                [name] = [output.name for output in session.get_outputs()]
                self.assertLess(relative_error(expected, np.load(self.tmp / "out" / f"{name}.npy")), 1e-4)


class ProfileBundleInStagesTest(ProfileBundleTest):
    DEVICES = ("--ngpus", 4, "--stages", 2, "--mesh", 2, "--objective", "throughput")


class ProfilesTest(TemporaryFolderTest):
    def refuse(self, *options, model=GPT2, command="plan", parts=()):
        done = autopar(command, model, "--ngpus", 4, *options, expect=1)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_each_profile_is_told_and_the_sum_by_weight(self):
        options = ("--shape", "sequence=1,16,64", "--profile-weights", "64,1,2")
        text = plan(*options)
        for line in ("sequence=1, weight 64: a run", "sequence=16, weight 1", "sequence=64, weight 2",
                     "all, by weight:", "proven optimal", "profile sequence=16, weight 1"):  # fmt: skip
            self.assertIn(line, text)
        found = plan_json(*options)
        self.assertTrue(found["summary"]["proven_optimal"])
        self.assertEqual([each["weight"] for each in found["profiles"]], [64, 1, 2])
        parts = [each["summary"] for each in found["profiles"]]
        total = sum(w * part["cost_seconds"] for w, part in zip((64, 1, 2), parts))
        self.assertAlmostEqual(found["summary"]["cost_seconds"], total, delta=1e-10)
        self.assertEqual(found["summary"]["peak_bytes"], max(p["peak_bytes"] for p in parts))
        # Each profile's operators are all there, and each weight once.
        alone = plan_json("--shape", "sequence=16")
        operators = [e["name"] for e in alone["operators"] if "inputs" in e]
        of_16 = [e["name"] for e in found["operators"] if e.get("profile") == "sequence=16"]
        self.assertEqual([name for name in of_16 if name in set(operators)], operators)
        names = [e["name"] for e in found["operators"] if "profile" not in e]
        self.assertEqual(len(names), len(set(names)))

    def test_a_prompt_and_a_step_are_better_off_together(self):
        options = ("--shape", "sequence=1,512", "--profile-weights", "64,1", "--device", "cpu")
        joint = plan_json(*options, model=LLAMA)
        self.assertTrue(joint["summary"]["proven_optimal"])
        for sequence in (1, 512):
            alone = plan_json("--shape", f"sequence={sequence}", "--device", "cpu", model=LLAMA)
            weights = set(weights_of(joint))
            pins = self.tmp / f"{sequence}.json"
            pins.write_text(json.dumps({"operators": [
                {"name": name, "outputs": [spec]}
                for name, spec in weights_of(alone).items() if name in weights]}))
            imposed = plan_json(*options, "--strategy", pins, model=LLAMA)
            self.assertTrue(imposed["summary"]["proven_optimal"])
            self.assertLess(
                1.04 * joint["summary"]["cost_seconds"], imposed["summary"]["cost_seconds"])

    def test_constants_of_one_name_that_profiles_fold_otherwise_are_told_for_each(self):
        found = plan_json("--shape", "sequence=1,512", model=LLAMA)
        entries = {}
        for entry in found["operators"]:
            if "inputs" not in entry and not entry["name"].startswith(("input_ids", "attention_mask")):
                entries.setdefault(entry["name"], []).append(entry.get("profile"))
        of_profiles = [profiles for profiles in entries.values() if profiles != [None]]
        self.assertTrue(of_profiles)
        for profiles in of_profiles:
            self.assertNotIn(None, profiles)

    def test_inspect_tells_of_one_profile(self):
        done = autopar("inspect", LLAMA, "--shape", "sequence=1,512", expect=1)
        self.assertIn("one profile", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_profiles_are_cut_into_the_same_stages(self):
        options = ("--shape", "sequence=1,64", "--profile-weights", "64,1", "--stages", 2)
        found = plan_json(*options)
        ranks = [[(stage["first_rank"], stage["mesh"]) for stage in profile["stages"]]
                 for profile in found["profiles"]]  # fmt: skip
        self.assertEqual(len(ranks[0]), 2)
        self.assertEqual(*ranks)
        of_operators, of_weights = {}, {}
        for entry in found["operators"]:
            if "inputs" in entry:
                of_operators.setdefault(entry["name"], set()).add(entry["stage"])
            elif "profile" not in entry:
                of_weights.setdefault((entry["stage"], entry["name"]), []).append(entry["outputs"])
        self.assertEqual({len(stages) for stages in of_operators.values()}, {1})
        self.assertEqual({len(specs) for specs in of_weights.values()}, {1})
        summary = found["summary"]
        self.assertLessEqual(summary["lower_bound_seconds"], summary["cost_seconds"])
        total = sum(each["weight"] * each["summary"]["cost_seconds"] for each in found["profiles"])
        self.assertAlmostEqual(summary["cost_seconds"], total, delta=1e-10)
        text = plan(*options)
        for line in ("2 stages, device h200, 2 profiles", "sequence=64, weight 1", "stage 1: ranks"):
            self.assertIn(line, text)

    def test_its_plan_json_is_read_again(self):
        options = ("--shape", "sequence=1,16")
        first = self.tmp / "plan.json"
        first.write_text(plan(*options, "--json"))
        again = plan_json(*options, "--strategy", first)
        before = json.loads(first.read_text())
        self.assertEqual(again["operators"], before["operators"])
        self.assertEqual(again["profiles"], before["profiles"])
        same = json.loads(autopar("plan", "--compare", first, first, "--json").stdout)
        self.assertEqual(same["operators"], [])

    def test_lists_go_together_by_position(self):
        by_symbol = plan_json("--shape", "batch=2", "--shape", "sequence=1,16")
        by_input = plan_json("--shape", "input_ids=2x1,2x16")
        costs = [[p["summary"]["cost_seconds"] for p in each["profiles"]]
                 for each in (by_symbol, by_input)]  # fmt: skip
        self.assertEqual(*costs)
        both = plan_json("--shape", "batch=4,1", "--shape", "sequence=1,16")
        self.assertEqual([p["profile"] for p in both["profiles"]],
                         ["batch=4, sequence=1", "batch=1, sequence=16"])  # fmt: skip

    def test_a_prompt_and_a_step_share_states(self):
        found = plan_json("--shape", "sequence=1,64", "--loop", "present.*=past_key_values.*",
                          model=STEP, ngpus=2)  # fmt: skip
        past = {}
        for entry in found["operators"]:
            if entry["name"].startswith("past_key_values"):
                past.setdefault(entry["name"], set()).add(entry["outputs"][0])
        self.assertTrue(past)
        for name, specs in past.items():
            self.assertEqual(len(specs), 1, name)

    def test_every_search_and_mesh(self):
        best = plan_json("--shape", "sequence=1,64")["summary"]["cost_seconds"]
        for search in ("recursive", "propagation"):
            summary = plan_json("--shape", "sequence=1,64", "--search", search)["summary"]
            self.assertGreaterEqual(summary["cost_seconds"], best - 1e-11)
            self.assertLessEqual(summary["lower_bound_seconds"], best + 1e-11)
        meshes = plan_json("--shape", "sequence=1,64", "--mesh", "auto")["summary"]
        self.assertLessEqual(meshes["cost_seconds"], best + 1e-11)
        self.assertEqual(len(meshes["meshes"]), 2)

    def test_an_operator_is_explained_in_each_profile(self):
        options = ("--shape", "sequence=1,16", "--explain", "node_addmm_1")
        text = plan(*options)
        self.assertIn("profile sequence=1; ", text)
        self.assertIn("profile sequence=16; ", text)
        told = json.loads(plan(*options, "--json"))
        self.assertEqual([each["profile"] for each in told["profiles"]],
                         ["sequence=1", "sequence=16"])  # fmt: skip
        for each in told["profiles"]:
            self.assertTrue(each["explanation"]["candidates"][0]["chosen"])

    def test_bad_profiles_are_refused_in_a_line(self):
        for options, parts in (
            (("--shape", "sequence=1,16", "--shape", "batch=1,2,3"), ("2 values", "has 3")),
            (("--shape", "sequnce=1,16"), ("sequnce=1", "sequence")),
            (("--shape", "sequence=1,1"), ("sequence=1", "leave one out")),
            (("--shape", "sequence=1,"), ("sequence=", "expected")),
            (("--shape", "sequence=1,x"), ("sequence=x", "expected")),
            (("--shape", "sequence=1,16", "--profile-weights", "1"), ("1 for 2 profiles",)),
            (("--profile-weights", "1,2"), ("2 for one profile",)),
            (("--shape", "sequence=1,16", "--profile-weights", "1,0"), ("1,0", "from 0.001")),
            (("--shape", "sequence=1,16", "--profile-weights=1,-2"), ("1,-2",)),
            (("--shape", "sequence=1,16", "--profile-weights", "1,nan"), ("1,nan",)),
            (("--shape", "sequence=1,16", "--microbatches", "2"), ("--microbatches 2",)),
            (("--shape", "sequence=1,16", "--memory", "1KiB"), ("smallest known",)),
        ):
            with self.subTest(options):
                self.refuse(*options, parts=parts)

    def test_pins_of_a_profile_that_is_not_there(self):
        pins = self.tmp / "pins.json"
        pins.write_text(json.dumps({"operators": [
            {"name": "*", "outputs": [], "profile": "sequence=3"}]}))
        self.refuse("--shape", "sequence=1,16", "--strategy", pins,
                    parts=("'sequence=3'", "'sequence=1', 'sequence=16'"))  # fmt: skip
        self.refuse("--strategy", pins, parts=("one profile alone",))


if __name__ == "__main__":
    unittest.main()
