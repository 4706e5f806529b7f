"""Decoders of every exporter's convention, token by token against ONNX Runtime: without a cache,
with one that grows and is empty at first, of a fixed length, and of two branches."""

import re
import unittest

import numpy as np
import onnxruntime

from support import MODELS, TOLERANCE, TemporaryFolderTest, autopar, relative_error

PROMPT = [11, 402, 7]
# What follows it, whatever is chosen: random weights soon choose one token for ever.
TEXT = [*PROMPT, 300, 17, 44, 250, 96]
LENGTH = len(TEXT)
STEPS = LENGTH - len(PROMPT)
# A whole text in each run.
WITHOUT_CACHE = sorted(
    folder.name
    for folder in MODELS.iterdir()
    if re.match(r"(gemma2|gpt2|llama|mamba|mixtral|qwen2|t5-decoder|whisper-decoder)-", folder.name)
    and not re.search(r"-(gqa|gqa-4bit|mha|static|step)\b", folder.name)
)
GROWING = ("gpt2-step", "llama-step-dynamo", "llama-step-torchscript", "llama-mha", "t5-merged")
BRANCH = "use_cache_branch"
random = np.random.default_rng(4)
ENCODED = {
    "encoder_hidden_states": random.standard_normal((1, 24, 64)).astype(np.float32),
    "encoder_attention_mask": (np.arange(24) < 20).astype(np.int64)[None],
}


class Reference:
    """ONNX Runtime on a sample model."""

    def __init__(self, name):
        self.file = MODELS / name / "model.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(self.file, options)
        self.inputs = {port.name: port.shape for port in self.session.get_inputs()}
        self.outputs = [port.name for port in self.session.get_outputs()]

    def run(self, feeds):
        feeds = {name: array for name, array in feeds.items() if name in self.inputs}
        return dict(zip(self.outputs, self.session.run(None, feeds), strict=True))

    def cache(self, rows):
        """Zeros: of so many rows in what grows, of as many as the encoder has across."""
        return {
            name: np.zeros(
                (1, shape[1], ENCODED["encoder_attention_mask"].shape[1] if ".encoder." in name else rows,
                 self.width(shape)),
                np.float32,
            )
            for name, shape in self.inputs.items()
            if name.startswith("past_key_values")
        }  # fmt: skip

    def width(self, shape):
        return shape[3] if isinstance(shape[3], int) else 16  # the builder leaves it open


class DecodersTest(TemporaryFolderTest):
    def partition(self, reference, feeds, ranks, *more):
        """A bundle for the feeds' shapes. Which branch is taken is the bundle's."""
        words = []
        for name, array in feeds.items():
            if name not in reference.inputs:
                continue
            if name == BRANCH:
                words += ["--constant", f"{name}={self.saved(name, array)}"]
            else:
                words += ["--shape", f"{name}={'x'.join(map(str, array.shape))}"]
        bundle = self.tmp / "bundle"
        autopar("partition", reference.file, *words, *more, "--ngpus", ranks, "--out", bundle, "--force")
        return bundle

    def saved(self, name, array):
        file = self.tmp / f"{name}.npy"
        np.save(file, array)
        return file

    def run_bundle(self, bundle, reference, feeds, *more):
        words = []
        for name, array in feeds.items():
            if name in reference.inputs and name != BRANCH:
                words += ["--input", f"{name}={self.saved(name, array)}"]
        autopar("run", "--dir", bundle, *words, *more, "--output-dir", self.tmp / "out")
        return {name: np.load(self.tmp / "out" / f"{name}.npy") for name in reference.outputs}

    def assert_close(self, expected, actual, what):
        self.assertLessEqual(relative_error(expected, actual), TOLERANCE, what)

    def test_without_cache(self):
        """The text is padded at its end, where a causal decoder does not look from before."""
        for name in WITHOUT_CACHE:
            with self.subTest(name):
                reference = Reference(name)
                bundle = None
                for count in range(len(PROMPT), LENGTH):
                    padded = np.array([TEXT[:count] + [0] * (LENGTH - count)])
                    feeds = {**ENCODED, "input_ids": padded,
                             "attention_mask": (np.arange(LENGTH) < count).astype(np.int64)[None]}
                    bundle = bundle or self.partition(reference, feeds, 2)
                    logits = self.run_bundle(bundle, reference, feeds)["logits"][:, count - 1]
                    if name.startswith("mamba"):  # is for one length
                        exact = feeds
                    else:
                        exact = {**ENCODED, "input_ids": padded[:, :count],
                                 "attention_mask": np.ones((1, count), np.int64)}
                    expected = reference.run(exact)["logits"][:, count - 1]
                    self.assert_close(expected, logits, f"{name} after {count} tokens")
                    self.assertEqual(logits.argmax(), expected.argmax())

    def test_cache_that_grows_from_nothing(self):
        """Each step has a bundle of its own; the first one's cache has no rows."""
        for name in GROWING:
            with self.subTest(name):
                reference = Reference(name)
                past = reference.cache(0)
                expected_past = dict(past)
                # Without a prompt of several tokens, where an exporter fixed the step to one.
                new = PROMPT if reference.session.get_outputs()[0].shape[1] != 1 else PROMPT[:1]
                held = 0
                for step in range(STEPS):
                    feeds = {
                        **ENCODED,
                        "input_ids": np.array([new]),
                        "attention_mask": np.ones((1, held + len(new)), np.int64),
                        "position_ids": np.arange(held, held + len(new))[None],
                        BRANCH: np.array([held > 0]),
                    }
                    expected = reference.run({**feeds, **expected_past})
                    bundle = self.partition(reference, {**feeds, **past}, 2 + step % 2)
                    actual = self.run_bundle(bundle, reference, {**feeds, **past})
                    for output, array in expected.items():
                        self.assert_close(array, actual[output], f"{name} {output} step {step}")
                    for mine, results in ((past, actual), (expected_past, expected)):
                        for key in mine:
                            made = results[key.replace("past_key_values", "present")]
                            if made.size > 0:  # else it is kept
                                mine[key] = made
                    held += len(new)
                    new = [TEXT[held]]
                    self.assertEqual(actual["logits"][0, -1].argmax(), expected["logits"][0, -1].argmax())

    def greedy(self, reference, feeds_of_step, cache, steps):
        """What ONNX Runtime chooses, its cache handed on, and the last step's results."""
        tokens, past, token = [], cache, PROMPT[0]
        for step in range(steps):
            results = reference.run({"input_ids": np.array([[token]]), **feeds_of_step(step), **past})
            past = {name: results[name.replace("past_key_values", "present")] for name in past}
            tokens.append(int(results["logits"][0, -1].argmax()))
            token = PROMPT[step + 1] if step + 1 < len(PROMPT) else tokens[-1]
        return tokens, results

    def check_loop(self, reference, shapes, entries, expected, ranks):
        tokens, results = expected
        bundle = self.partition(reference, shapes, ranks, "--loop", "present.*=past_key_values.*")
        entries = {"input_ids": np.array(PROMPT).reshape(-1, 1, 1), **entries}
        actual = self.run_bundle(bundle, reference, entries, "--steps", len(tokens),
                                 "--choose", "logits=input_ids")
        chosen = np.load(self.tmp / "out" / "chosen-input_ids.npy").ravel().tolist()
        self.assertEqual(chosen, tokens)
        self.assertGreater(len(set(tokens)), 4)
        self.assert_close(results["logits"], actual["logits"], "logits of the last step")

    def test_cache_of_a_fixed_length(self):
        """The model itself puts a step's rows to their place."""
        reference = Reference("llama-static")
        rows = reference.inputs["past_key_values.0.key"][2]
        cache = reference.cache(rows)
        expected = self.greedy(reference, lambda step: {"cache_position": np.array([step])}, cache, rows)
        shapes = {"input_ids": np.zeros((1, 1)), **cache}
        entries = {"cache_position": np.arange(rows)[:, None]}
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.check_loop(reference, shapes, entries, expected, ranks)

    def test_cache_in_a_buffer_behind_a_mask(self):
        """A model that joins cache and new tokens, as the builder of generative models writes it
        for devices without an attention of its own: the buffer's empty rows are masked."""
        reference, steps = Reference("llama-mha"), 12
        expected = self.greedy(
            reference,
            lambda step: {"attention_mask": np.ones((1, step + 1), np.int64),
                          "position_ids": np.array([[step]])},
            reference.cache(0), steps)  # fmt: skip
        shapes = {
            "input_ids": np.zeros((1, 1)),
            "position_ids": np.zeros((1, 1)),
            "attention_mask": np.zeros((1, steps)),
            **reference.cache(steps - 1),
        }
        mask = np.zeros((steps, 1, steps), np.int64)
        for step in range(steps):
            mask[step, 0, :step] = 1
            mask[step, 0, -1] = 1
        entries = {"attention_mask": mask, "position_ids": np.arange(steps).reshape(-1, 1, 1)}
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.check_loop(reference, shapes, entries, expected, ranks)


if __name__ == "__main__":
    unittest.main()
