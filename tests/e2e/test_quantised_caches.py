"""A decoder whose GroupQueryAttention keeps its cache in 8 or 4 bits, step by step, on ranks that
have the heads of the cache among them, against ONNX Runtime."""

import json
import unittest
from itertools import product

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from support import TemporaryFolderTest, autopar

HEADS, KEY_HEADS, DEPTH, WORDS = 4, 2, 16, 60
WIDTH = HEADS * DEPTH
PROMPT = [11, 42, 7]
STEPS = 16
SCALES = {"PER_TENSOR": (1,), "PER_CHANNEL": (1, KEY_HEADS, 1, DEPTH)}
CACHES = ("key", "value")


def stored_shape(bits, rows):
    return (1, KEY_HEADS, rows, DEPTH * bits // 8)


def decoder(bits, rows, quantised="PER_CHANNEL", scales=None, **changes):
    """The logits behind a token and a cache of `rows` rows, of which seqlens_k says how many count;
    a step makes it STEPS rows long."""
    random = np.random.default_rng(3)
    scales = scales or SCALES[quantised]

    def weight(name, *shape, low=None, high=None):
        drawn = random.standard_normal(shape) if low is None else random.uniform(low, high, shape)
        return numpy_helper.from_array(drawn.astype(np.float32), name)

    angles = np.arange(STEPS)[:, None] / 10.0 ** (np.arange(DEPTH // 2) / DEPTH)
    low, high = (0.02, 0.04) if bits == 8 else (0.2, 0.4)
    weights = [
        weight("embedding", WORDS, WIDTH),
        weight("to_heads", WIDTH, WIDTH + 2 * KEY_HEADS * DEPTH, low=-0.2, high=0.2),
        weight("to_words", WIDTH, WORDS),
        weight("k_scale", *scales, low=low, high=high),
        weight("v_scale", *scales, low=low, high=high),
        numpy_helper.from_array(np.cos(angles).astype(np.float32), "cos_cache"),
        numpy_helper.from_array(np.sin(angles).astype(np.float32), "sin_cache"),
        numpy_helper.from_array(np.array(STEPS, np.int32), "total"),
    ]
    inputs = [
        "qkv", "", "", "past_key", "past_value", "seqlens_k", "total", "cos_cache", "sin_cache",
        "", "", "", "k_scale", "v_scale",
    ]  # fmt: skip
    attributes = {
        "num_heads": HEADS, "kv_num_heads": KEY_HEADS, "do_rotary": 1, "kv_cache_bit_width": bits,
        "k_quant_type": quantised, "v_quant_type": quantised, **changes,
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "to_heads"], ["qkv"]),
        helper.make_node(
            "GroupQueryAttention", inputs, ["attended", "present_key", "present_value"],
            name="the_node", domain="com.microsoft", **attributes,
        ),
        helper.make_node("Add", ["x", "attended"], ["sum"]),
        helper.make_node("MatMul", ["sum", "to_words"], ["logits"]),
    ]  # fmt: skip
    kind = TensorProto.INT8 if bits == 8 else TensorProto.UINT8

    def caches(side, rows):
        info = helper.make_tensor_value_info
        return [info(f"{side}_{name}", kind, stored_shape(bits, rows)) for name in CACHES]

    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, (1, 1)),
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, (1,)),
            *caches("past", rows),
        ],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, 1, WORDS)),
            *caches("present", STEPS),
        ],
        weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def numbers_in(cache, bits):
    if bits == 8:
        return cache.astype(np.int32)
    pairs = np.stack([cache & 15, cache >> 4], axis=-1).astype(np.int32)
    return pairs.reshape(*cache.shape[:3], -1) - 8


def reference(model, bits, rows):
    """ONNX Runtime's tokens, and the caches behind the last step."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    kind = np.int8 if bits == 8 else np.uint8
    past = {f"past_{name}": np.zeros(stored_shape(bits, rows), kind) for name in CACHES}
    token, tokens = PROMPT[0], []
    for step in range(STEPS):
        feeds = {"input_ids": np.array([[token]]), "seqlens_k": np.array([step], np.int32)}
        made = dict(zip(names, session.run(None, feeds | past), strict=True))
        past = {f"past_{name}": made[f"present_{name}"][:, :, :rows] for name in CACHES}
        tokens.append(int(made["logits"][0, -1].argmax()))
        token = PROMPT[step + 1] if step + 1 < len(PROMPT) else tokens[-1]
    return tokens, made


class QuantisedCachesTest(TemporaryFolderTest):
    def write(self, model):
        onnx.save(model, self.tmp / "model.onnx")
        return self.tmp / "model.onnx"

    def decode(self, file, ranks):
        """Each rank has its share of the caches' heads."""
        pins = [{"name": f"past_{name}", "outputs": ["RS0RR"]} for name in CACHES]
        (self.tmp / "pins.json").write_text(json.dumps({"operators": pins}))
        more = ["--strategy", self.tmp / "pins.json"] if ranks > 1 else []
        bundle, out = self.tmp / "bundle", self.tmp / "out"
        autopar("partition", file, "--ngpus", ranks, "--out", bundle, "--force", *more,
                "--loop", "present_*=past_*")  # fmt: skip
        np.save(self.tmp / "ids.npy", np.array(PROMPT).reshape(-1, 1, 1))
        np.save(self.tmp / "lengths.npy", np.arange(STEPS, dtype=np.int32)[:, None])
        autopar("run", "--dir", bundle, "--steps", STEPS, "--choose", "logits=input_ids",
                "--input", f"input_ids={self.tmp}/ids.npy",
                "--input", f"seqlens_k={self.tmp}/lengths.npy", "--output-dir", out)  # fmt: skip
        self.check_shares(bundle, ranks)
        return lambda name: np.load(out / f"{name}.npy")

    def check_shares(self, bundle, ranks):
        for rank in range(ranks):
            shard = onnx.load(next(bundle.rglob(f"*{rank}*.onnx")), load_external_data=False)
            for port in shard.graph.input:
                if port.name.startswith("past"):
                    heads = port.type.tensor_type.shape.dim[1].dim_value
                    self.assertEqual(heads, KEY_HEADS // ranks)

    def test_steps_are_those_of_onnx_runtime(self):
        # A buffer of a row less than a step makes grows, one of equal length does not.
        for bits, quantised, rows in product((8, 4), SCALES, (STEPS - 1, STEPS)):
            file = self.write(decoder(bits, rows, quantised))
            tokens, made = reference(onnx.load(file), bits, rows)
            self.assertGreater(len(set(tokens)), 3)
            for ranks in (1, 2):
                with self.subTest(bits=bits, quantised=quantised, rows=rows, ranks=ranks):
                    output = self.decode(file, ranks)
                    self.assertEqual(output("chosen-input_ids").ravel().tolist(), tokens)
                    for name in CACHES:
                        self.check_cache(output(f"present_{name}"), made[f"present_{name}"], bits)

    def check_cache(self, found, expected, bits):
        """A sum that stands between two integers may be rounded to either."""
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
        apart = numbers_in(found, bits) - numbers_in(expected, bits)
        self.assertLessEqual(np.abs(apart).max(), 1)
        self.assertLess((apart != 0).mean(), 0.01)

    def refusal(self, model):
        file = self.write(model)
        done = autopar("partition", file, "--ngpus", 1, "--out", self.tmp / "b", expect=1)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("the_node", done.stderr)
        return done.stderr

    def test_what_is_not_served_is_refused_by_name(self):
        rows = STEPS
        for model, *words in (
            (decoder(8, rows, kv_cache_bit_width=2), "kv_cache_bit_width", "2"),
            (decoder(8, rows, k_quant_type="PER_ROW"), "k_quant_type", "PER_ROW"),
            (decoder(8, rows, v_quant_type="NONE"), "k_quant_type", "v_quant_type"),
            (decoder(8, rows, scales=(1, 1, 1, DEPTH)), "k_scale", str(KEY_HEADS * DEPTH)),
            (decoder(8, rows, kv_cache_bit_width=4), "past_key", "int8", "uint8"),
        ):
            with self.subTest(words):
                message = self.refusal(model)
                for word in words:
                    self.assertIn(word, message)


if __name__ == "__main__":
    unittest.main()
