"""A decoder step by step, its cache kept by the ranks, against ONNX Runtime run step by step."""

import json
import unittest

import numpy as np
import onnxruntime
from support import Model, TemporaryFolderTest, autopar, mpirun

PROMPT = [11, 402, 7]
STEPS = 66  # 64 tokens after the prompt's last
LOOP = "present.*=past_key_values.*"


def reference_tokens(model):
    """What follows each step of greedy decoding; the cache grows by a row a step."""
    session = onnxruntime.InferenceSession(model.file)
    past = {
        name: np.zeros((1, tensor.shape[1], 0, tensor.shape[3]), np.float32)
        for name, tensor in model.inputs.items()
        if name.startswith("past_key_values")
    }
    names = [output.name for output in session.get_outputs()]
    token, tokens = PROMPT[0], []
    for step in range(STEPS):
        feeds = {
            "input_ids": np.array([[token]]),
            "attention_mask": np.ones((1, step + 1), np.int64),
            "position_ids": np.array([[step]]),
        }
        results = dict(zip(names, session.run(None, {**feeds, **past})))
        past = {
            name.replace("present", "past_key_values"): value
            for name, value in results.items()
            if name.startswith("present")
        }
        tokens.append(int(results["logits"][0, -1].argmax()))
        token = PROMPT[step + 1] if step + 1 < len(PROMPT) else tokens[-1]
    return tokens


class DecodeTest(TemporaryFolderTest):
    def partition(self, model, ranks, *more, loop=True, rows=STEPS - 1):
        """With a cache of fixed length: what a step does not see is masked."""
        shapes = {"input_ids": "1x1", "position_ids": "1x1", "attention_mask": f"1x{rows + 1}"}
        for name, tensor in model.inputs.items():
            if name.startswith("past_key_values"):
                shapes[name] = f"1x{tensor.shape[1]}x{rows}x{tensor.shape[3]}"
        words = [word for name, shape in shapes.items() for word in ("--shape", f"{name}={shape}")]
        out = self.tmp / f"{model.folder.name}-{ranks}-{len(more)}-{loop}"
        autopar("partition", model.file, *words, "--ngpus", ranks, "--out", out, *more,
                "--loop", LOOP if loop else "none")  # fmt: skip
        return out

    def inputs(self, rows=STEPS - 1):
        """An entry a step: the last column is the step's own token, the first ones are the cache's."""
        mask = np.zeros((STEPS, 1, rows + 1), np.int64)
        for step in range(STEPS):
            mask[step, 0, :step] = 1
            mask[step, 0, rows] = 1
        tensors = {
            "input_ids": np.array(PROMPT).reshape(-1, 1, 1),
            "attention_mask": mask,
            "position_ids": np.arange(STEPS).reshape(-1, 1, 1),
        }
        words = []
        for name, tensor in tensors.items():
            np.save(self.tmp / f"{name}.npy", tensor)
            words += ["--input", f"{name}={self.tmp / name}.npy"]
        return words

    def decode(self, bundle, *more, command=autopar):
        done = command("run", "--dir", bundle, "--steps", STEPS, "--choose", "logits=input_ids",
                       *self.inputs(), "--output-dir", self.tmp / "out", "--json", *more)  # fmt: skip
        return np.load(self.tmp / "out" / "chosen-input_ids.npy").ravel().tolist(), done.stdout

    def test_tokens_are_those_of_onnx_runtime(self):
        for name in ("llama-step-torchscript", "llama-step-dynamo"):
            model = Model(name)
            expected = reference_tokens(model)
            self.assertGreater(len(set(expected)), 3)
            for ranks in (1, 2, 3):
                with self.subTest(model=name, ranks=ranks):
                    bundle = self.partition(model, ranks)
                    tokens, printed = self.decode(bundle)
                    self.assertEqual(tokens, expected)
                    self.check_bytes(bundle, json.loads(printed))
                    self.check_no_cache_is_gathered(model, bundle)
            with self.subTest(model=name, launch="mpirun"):
                tokens, _ = self.decode(bundle, command=lambda *words: mpirun(3, *words))
                self.assertEqual(tokens, expected)

    def test_tokens_are_those_of_onnx_runtime_in_two_stages(self):
        for name in ("llama-step-torchscript", "llama-step-dynamo"):
            model = Model(name)
            expected = reference_tokens(model)
            for ranks in (1, 2):
                with self.subTest(model=name, ranks_of_a_stage=ranks):
                    bundle = self.partition(model, 2 * ranks, "--stages", 2, "--mesh", ranks,
                                            "--objective", "throughput")  # fmt: skip
                    tokens, printed = self.decode(bundle)
                    self.assertEqual(tokens, expected)
                    self.check_bytes(bundle, json.loads(printed))
                    self.check_no_cache_is_gathered(model, bundle)
            with self.subTest(model=name, launch="mpirun"):
                tokens, _ = self.decode(bundle, command=lambda *words: mpirun(4, *words))
                self.assertEqual(tokens, expected)

    def check_bytes(self, bundle, printed):
        """Each step communicates what one run was predicted to, and nothing between steps is added."""
        info = json.loads((bundle / "meta-info.json").read_text())
        predicted = info["profiles"][0]["collectives"]
        counted = printed["collectives"]
        self.assertEqual(
            [(c["kind"], c["mesh_axes"], STEPS * c["count"], STEPS * c["bytes"]) for c in predicted],
            [(c["kind"], c["mesh_axes"], c["count"], c["bytes"]) for c in counted],
        )
        peaks = [rank["peak_bytes"] for rank in info["ranks"]]
        for measured, bound in zip(printed["peak_bytes"], peaks):
            self.assertLessEqual(measured, bound)

    def check_no_cache_is_gathered(self, model, bundle):
        """What a step sends at a time is less than a rank's share of any cache."""
        info = json.loads((bundle / "meta-info.json").read_text())
        heads, width = next((tensor.shape[1], tensor.shape[3]) for name, tensor in model.inputs.items()
                            if name.startswith("past_key_values"))  # fmt: skip
        share = heads * (STEPS - 1) * width * 4 / len(info["ranks"])
        for collective in info["profiles"][0]["collectives"]:
            self.assertLess(collective["bytes"] / collective["count"], share, collective)

    def test_bad_loops_are_refused_in_one_line(self):
        model = Model("llama-step-torchscript")
        bundle = self.partition(model, 2)
        cases = {
            "present.*=cache.*": ["run", "--dir", bundle, "--steps", 2, "--loop",
                                  "present.*=cache.*", *self.inputs()],
            "place for": ["run", "--dir", bundle, "--steps", 2 * STEPS, *self.inputs()],
            "give --steps": ["run", "--dir", bundle, "--loop", LOOP, *self.inputs()],
            "no such output": ["run", "--dir", bundle, "--steps", 2, "--choose",
                               "scores=input_ids", *self.inputs()],
        }  # fmt: skip
        for expected, words in cases.items():
            with self.subTest(expected):
                done = autopar(*words, expect=1)
                self.assertIn(expected, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_microbatches_have_no_states(self):
        file = Model("llama-step-torchscript").file
        shapes = ["--shape", "batch=2", "--shape", "sequence=1", "--shape", "past_sequence=9"]
        halves = ["--ngpus", 2, "--stages", 2, "--microbatches", 2]
        done = autopar("plan", file, *shapes, *halves, "--loop", LOOP, expect=1)
        self.assertEqual(
            done.stderr, "error: --loop: states are a whole batch's; leave --microbatches out\n"
        )
        bundle = self.tmp / "microbatches"
        autopar("partition", file, *shapes, *halves, "--out", bundle)  # states that nobody asks for
        done = autopar("run", "--dir", bundle, "--steps", 2, "--random-inputs", 1, expect=1)
        self.assertIn("a loop is for bundles of one microbatch", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_a_bundle_that_splits_the_rows_cannot_loop(self):
        model = Model("llama-step-torchscript")
        strategy = self.tmp / "strategy.json"
        pins = [{"name": "past_key_values.0.key", "outputs": ["RRS0R"]}]
        strategy.write_text(json.dumps({"operators": pins}))
        bundle = self.partition(model, 2, "--strategy", strategy, loop=False)
        done = autopar("run", "--dir", bundle, "--steps", 2, "--loop", LOOP, *self.inputs(),
                       expect=1)  # fmt: skip
        self.assertIn("partition the model with --loop", done.stderr)


if __name__ == "__main__":
    unittest.main()
