"""A decoder whose GroupQueryAttention is told by attention_mask, through seqlens_k, where its
tokens stand: decoded step by step with buffers of fixed length, and whole with padding, against
ONNX Runtime."""

import unittest

import numpy as np
import onnxruntime
from support import MODELS, TemporaryFolderTest, autopar, relative_error

FILE = MODELS / "llama-gqa" / "model.onnx"
LAYERS, KEY_HEADS, DEPTH = 2, 2, 16
PROMPT = [11, 402, 7]
STEPS = 24
TOLERANCE = 1e-4


def caches(rows):
    return {
        f"past_key_values.{layer}.{what}": (1, KEY_HEADS, rows, DEPTH)
        for layer in range(LAYERS)
        for what in ("key", "value")
    }


class Reference:
    """ONNX Runtime, which takes what autopar takes."""

    def __init__(self):
        self.session = onnxruntime.InferenceSession(FILE)
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, feeds):
        return dict(zip(self.names, self.session.run(None, feeds), strict=True))

    def tokens(self):
        """What follows each step of greedy decoding; the cache grows by a row a step."""
        past = {name: np.zeros(shape, np.float32) for name, shape in caches(0).items()}
        token, tokens = PROMPT[0], []
        for step in range(STEPS):
            mask = np.ones((1, step + 1), np.int64)
            results = self.run({"input_ids": np.array([[token]]), "attention_mask": mask, **past})
            past = {name: results[name.replace("past_key_values", "present")] for name in past}
            tokens.append(int(results["logits"][0, -1].argmax()))
            token = PROMPT[step + 1] if step + 1 < len(PROMPT) else tokens[-1]
        return tokens


def seen_first(columns):
    """A step's own token stands behind those before it, as onnxruntime-genai has it."""
    return np.arange(columns) <= np.arange(STEPS)[:, None]


def seen_last(columns):
    """A step's own token stands in the last column, as README has it."""
    mask = np.arange(columns) < np.arange(STEPS)[:, None]
    mask[:, -1] = True
    return mask


class DecodeGqaTest(TemporaryFolderTest):
    def partition(self, ranks, new, columns, rows, *more):
        shapes = {"input_ids": (1, new), "attention_mask": (1, columns), **caches(rows)}
        words = []
        for name, shape in shapes.items():
            words += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
        bundle = self.tmp / f"bundle-{ranks}-{new}-{columns}-{rows}"
        autopar("partition", FILE, *words, "--ngpus", ranks, "--out", bundle, "--force", *more)
        return bundle

    def run_bundle(self, bundle, tensors, *more):
        words = []
        for name, tensor in tensors.items():
            np.save(self.tmp / f"{name}.npy", tensor)
            words += ["--input", f"{name}={self.tmp / name}.npy"]
        autopar("run", "--dir", bundle, *words, "--output-dir", self.tmp / "out", *more)
        return lambda name: np.load(self.tmp / "out" / f"{name}.npy")

    def test_tokens_are_those_of_onnx_runtime(self):
        expected = Reference().tokens()
        self.assertGreater(len(set(expected)), 3)
        # A buffer with a row less than the mask has columns grows in each step, one of equal length
        # does not.
        for rows, columns in ((STEPS - 1, STEPS), (STEPS, STEPS)):
            for mask in (seen_first(columns), seen_last(columns)):
                for ranks in (1, 2):
                    with self.subTest(rows=rows, columns=columns, ranks=ranks):
                        bundle = self.partition(
                            ranks, 1, columns, rows, "--loop", "present.*=past_key_values.*"
                        )
                        tensors = {
                            "input_ids": np.array(PROMPT).reshape(-1, 1, 1),
                            "attention_mask": mask.astype(np.int64)[:, None, :],
                        }
                        output = self.run_bundle(
                            bundle, tensors, "--steps", STEPS, "--choose", "logits=input_ids"
                        )
                        self.assertEqual(output("chosen-input_ids").ravel().tolist(), expected)

    def test_steps_with_a_padded_mask(self):
        """Steps of one token and of several, into a buffer with room and behind a full one; a
        padded prompt, with room and without."""
        reference, random = Reference(), np.random.default_rng(5)
        for new, columns, rows, length in (
            (1, 9, 8, 4), (1, 9, 8, 9), (1, 8, 8, 3), (3, 9, 9, 5), (3, 8, 5, 6), (5, 5, 9, 3),
            (5, 5, 5, 5),
        ):  # fmt: skip
            feeds = {
                "input_ids": random.integers(0, 500, (1, new)),
                "attention_mask": (np.arange(columns) < length).astype(np.int64)[None],
            }
            for name, shape in caches(rows).items():
                feeds[name] = random.standard_normal(shape).astype(np.float32)
            expected = reference.run(feeds)
            told = new if new == columns else length  # rows behind them hold nothing
            for ranks in (1, 2):
                with self.subTest(new=new, columns=columns, rows=rows, length=length, ranks=ranks):
                    output = self.run_bundle(self.partition(ranks, new, columns, rows), feeds)
                    for name, tensor in expected.items():
                        found = output(name)
                        self.assertEqual(found.shape, tensor.shape)
                        if name != "logits":
                            tensor, found = tensor[:, :, :told], found[:, :, :told]
                        self.assertLessEqual(relative_error(tensor, found), TOLERANCE, name)


if __name__ == "__main__":
    unittest.main()
