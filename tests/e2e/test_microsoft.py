"""Operators of com.microsoft, as ONNX Runtime's optimiser and its model builder write them, against
ONNX Runtime: whole and split over two ranks."""

import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from support import MODELS, TOLERANCE, Model, TemporaryFolderTest, autopar, relative_error

FLOAT = TensorProto.FLOAT
random = np.random.default_rng(6)


def floats(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


class Node:
    """A model of one node. `inputs` maps names to arrays, None where one is left out; those in
    `weights` are initializers. `outputs` has None for one that is left out."""

    def __init__(self, op_type, inputs, outputs, weights=(), domain="com.microsoft", **attributes):
        present = {name: array for name, array in inputs.items() if array is not None}
        node = helper.make_node(
            op_type,
            [name if array is not None else "" for name, array in inputs.items()],
            [name or "" for name in outputs],
            name="the_node",
            domain=domain,
            **attributes,
        )
        given = {name: array for name, array in present.items() if name not in weights}
        graph = helper.make_graph(
            [node],
            "g",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in given.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in outputs if name],
            [numpy_helper.from_array(present[name], name) for name in weights if name in present],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self.inputs = given
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)
        self.expected = dict(
            zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True)
        )
        # autopar wants to know the outputs' types.
        for output in self.model.graph.output:
            array = self.expected[output.name]
            output.CopyFrom(
                helper.make_tensor_value_info(
                    output.name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
            )


class MicrosoftTest(TemporaryFolderTest):
    def check(self, node, tolerance=1e-5, ranks=(1, 2), rows=None):
        """`rows`: what of the outputs' second dimension counts, by batch."""
        folder = self.tmp / f"case{len(list(self.tmp.iterdir()))}"
        folder.mkdir()
        onnx.save(node.model, folder / "model.onnx")
        files = []
        for name, array in node.inputs.items():
            np.save(folder / f"{name}.npy", array)
            files += ["--input", f"{name}={folder}/{name}.npy"]
        for count in ranks:
            bundle, out = folder / f"bundle{count}", folder / f"out{count}"
            autopar("partition", folder / "model.onnx", "--ngpus", count, "--out", bundle)
            autopar("run", "--dir", bundle, *files, "--output-dir", out)
            for name, expected in node.expected.items():
                actual = np.load(out / f"{name}.npy")
                if rows is not None and name == "output":
                    expected, actual = (
                        np.concatenate([x[b, :n] for b, n in enumerate(rows)])
                        for x in (expected, actual)
                    )
                if np.issubdtype(expected.dtype, np.integer):
                    self.assertLessEqual(
                        np.max(np.abs(expected.astype(int) - actual), initial=0), 1, name
                    )
                else:
                    self.assertLessEqual(relative_error(expected, actual), tolerance, name)

    def test_normalisations(self):
        x, skip, gamma, beta, bias = floats(2, 3, 16), floats(2, 3, 16), *floats(3, 16)
        everything = {"input": x, "skip": skip, "gamma": gamma, "beta": beta, "bias": bias}
        outputs = ["output", None, None, "input_skip_bias_sum"]
        self.check(Node("SkipLayerNormalization", everything, outputs, epsilon=1e-5))
        self.check(
            Node(
                "SkipLayerNormalization",
                {"input": x, "skip": skip[:1], "gamma": gamma, "beta": beta},
                ["output"],
                weights=("gamma", "beta"),
            )
        )
        rms = {"input": x, "skip": skip, "gamma": gamma, "bias": bias}
        self.check(Node("SkipSimplifiedLayerNormalization", rms, outputs, epsilon=1e-6))
        self.check(
            Node(
                "SimplifiedLayerNormalization",
                {"X": x, "scale": gamma},
                ["Y"],
                domain="",
                epsilon=1e-6,
                axis=-1,
            )
        )
        ids = random.integers(0, 9, (2, 5)).astype(np.int32)
        embedding = {
            "input_ids": ids,
            "segment_ids": ids % 2,
            "word_embedding": floats(9, 16),
            "position_embedding": floats(7, 16),
            "segment_embedding": floats(2, 16),
            "gamma": gamma,
            "beta": beta,
            "mask": (ids > 3).astype(np.int32),
        }
        self.check(Node("EmbedLayerNormalization", embedding, ["output", "mask_index"]))

    def test_activations(self):
        x, bias = floats(2, 3, 16), floats(16)
        self.check(Node("Gelu", {"X": x}, ["Y"]))
        self.check(Node("FastGelu", {"X": x, "bias": bias}, ["Y"]))
        self.check(Node("FastGelu", {"X": x}, ["Y"]))
        self.check(Node("BiasGelu", {"A": x, "B": bias}, ["C"]))
        self.check(Node("QuickGelu", {"X": x}, ["Y"], alpha=1.5))

    def test_products(self):
        a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
        self.check(Node("FusedMatMul", {"A": a, "B": b}, ["Y"], alpha=0.5))
        turned = a.swapaxes(2, 3).copy(), b.swapaxes(2, 3).copy()
        self.check(
            Node("FusedMatMul", {"A": turned[0], "B": turned[1]}, ["Y"], transA=1, transB=1)
        )
        # [batch, rows, heads, columns]: the first dimension stands right before the last.
        moved = np.moveaxis(a, 2, 0).copy()
        self.check(Node("FusedMatMul", {"A": moved, "B": b}, ["Y"], transBatchA=1))
        self.check(
            Node(
                "FusedGemm",
                {"A": floats(3, 4), "B": floats(5, 4), "C": floats(5)},
                ["Y"],
                weights=("B",),
                transB=1,
                activation="LeakyRelu",
                activation_alpha=0.3,
            )
        )
        conv = {"X": floats(2, 3, 6, 6), "W": floats(4, 3, 3, 3), "B": floats(4)}
        self.check(
            Node("FusedConv", conv, ["Y"], weights=("W", "B"), activation="Relu", pads=[1] * 4)
        )

    def test_rotary_embedding(self):
        tables = {"cos_cache": floats(12, 4), "sin_cache": floats(12, 4)}
        positions = random.integers(0, 12, (2, 5)).astype(np.int64)
        for x in (floats(2, 5, 24), floats(2, 3, 5, 8)):
            for interleaved in (0, 1):
                for ids in (positions, np.array([3], np.int64)):
                    inputs = {"input": x, "position_ids": ids, **tables}
                    self.check(
                        Node("RotaryEmbedding", inputs, ["output"], interleaved=interleaved)
                    )
        inputs = {"input": floats(2, 5, 48), "position_ids": positions, **tables}
        self.check(Node("RotaryEmbedding", inputs, ["output"], num_heads=3, rotary_embedding_dim=8))

    def test_multi_head_attention(self):
        heads = {"num_heads": 4}
        q, k, v = floats(2, 5, 32), floats(2, 7, 32), floats(2, 7, 32)
        given = {"query": q, "key": k, "value": v}
        self.check(Node("MultiHeadAttention", given, ["output"], **heads))
        masks = (
            np.array([3, 7], np.int32),
            (np.arange(7)[None] < [[7], [4]]).astype(np.int32),
            random.integers(0, 2, (2, 5, 7)).astype(np.int32),
        )
        for mask in masks:
            inputs = {
                **given,
                "bias": floats(96),
                "key_padding_mask": mask,
                "attention_bias": floats(1, 4, 5, 7),
            }
            self.check(Node("MultiHeadAttention", inputs, ["output"], scale=0.3, **heads))
        own = {"query": q, "key": floats(2, 5, 32), "value": floats(2, 5, 32)}
        past = {"past_key": floats(2, 4, 3, 8), "past_value": floats(2, 4, 3, 8)}
        outputs = ["output", "present_key", "present_value"]
        nothing = {"bias": None, "key_padding_mask": None, "attention_bias": None}
        for unidirectional in (0, 1):
            self.check(
                Node(
                    "MultiHeadAttention",
                    {**own, **nothing, **past},
                    outputs,
                    unidirectional=unidirectional,
                    **heads,
                )
            )
        self.check(Node("MultiHeadAttention", own, outputs, unidirectional=1, **heads))
        # Keys and values with heads, as of another attention's cache.
        cross = {"query": q, "key": floats(2, 4, 7, 8), "value": floats(2, 4, 7, 8)}
        self.check(Node("MultiHeadAttention", cross, ["output"], **heads))

    def test_attention(self):
        x, weights, bias = floats(2, 5, 16), floats(16, 96, scale=0.25), floats(96)
        given = {"input": x, "weights": weights, "bias": bias}
        fixed = {"weights": ("weights", "bias"), "num_heads": 4}
        masks = (
            None,
            np.array([3, 5], np.int32),
            np.array([4, 5, 1, 0], np.int32),
            random.integers(0, 2, (2, 5)).astype(np.int32),
            random.integers(0, 2, (2, 5, 5)).astype(np.int32),
        )
        for mask in masks:
            for unidirectional in (0, 1):
                inputs = {**given, "mask_index": mask}
                self.check(
                    Node("Attention", inputs, ["output"], unidirectional=unidirectional, **fixed)
                )
        past = {"mask_index": None, "past": floats(2, 2, 4, 3, 8)}
        self.check(
            Node("Attention", {**given, **past}, ["output", "present"], unidirectional=1, **fixed)
        )
        bias_on_scores = {"mask_index": None, "past": None, "attention_bias": floats(2, 4, 5, 5)}
        self.check(Node("Attention", {**given, **bias_on_scores}, ["output", "present"], **fixed))
        sizes = {"input": x, "weights": floats(16, 80, scale=0.25), "bias": floats(80)}
        self.check(Node("Attention", sizes, ["output"], qkv_hidden_sizes=[32, 32, 16], **fixed))

    def grouped(self, batch, new, past, total, lengths, packed=False, rows=None, known=True, **options):
        heads, key_heads, depth = 4, 2, 16
        width = (heads + 2 * key_heads if packed else heads) * depth
        inputs = {
            "query": floats(batch, new, width),
            "key": None if packed else floats(batch, new, key_heads * depth),
            "value": None if packed else floats(batch, new, key_heads * depth),
            "past_key": floats(batch, key_heads, past, depth),
            "past_value": floats(batch, key_heads, past, depth),
            "seqlens_k": np.array(lengths, np.int32) - 1,
            "total_sequence_length": np.array(total, np.int32),
        }
        if options.get("do_rotary"):
            angles = np.arange(64)[:, None] / 100.0 ** (np.arange(depth // 2) / depth)
            inputs["cos_cache"] = np.cos(angles).astype(np.float32)
            inputs["sin_cache"] = np.sin(angles).astype(np.float32)
        more = {"attention_bias": options.pop("bias", None), "head_sink": options.pop("sink", None)}
        if any(array is not None for array in more.values()):
            for name in ("cos_cache", "sin_cache", "position_ids"):
                inputs.setdefault(name, None)
            inputs.update(more)
        node = Node(
            "GroupQueryAttention",
            inputs,
            ["output", "present_key", "present_value"],
            weights=("cos_cache", "sin_cache") + (("total_sequence_length",) if known else ()),
            num_heads=heads,
            kv_num_heads=key_heads,
            **options,
        )
        if rows is not None:  # what stands in the cache behind a sequence is not told
            for name in ("present_key", "present_value"):
                del node.expected[name]
        self.check(node, rows=rows)

    def test_group_query_attention(self):
        for packed in (False, True):
            for rotary in (0, 1):
                how = {"packed": packed, "do_rotary": rotary}
                self.grouped(2, 5, 0, 5, [5, 5], **how)  # the prompt
                self.grouped(2, 5, 0, 5, [5, 3], rows=[5, 3], **how)  # padded on the right
                self.grouped(1, 1, 6, 7, [7], **how)  # a further token, the cache as long as needed
                self.grouped(1, 3, 6, 9, [9], **how)
                self.grouped(2, 1, 6, 7, [7, 7], **how)
        for rotary in (0, 1):  # a buffer with room, and a length that each run tells
            how = {"known": False, "do_rotary": rotary}
            self.grouped(2, 1, 9, 7, [7, 4], rows=[1, 1], **how)
            self.grouped(1, 3, 9, 7, [7], rows=[3], **how)
            self.grouped(2, 5, 9, 5, [5, 3], rows=[5, 3], **how)
        self.grouped(2, 4, 0, 4, [4, 4], softcap=2.0, scale=0.3)
        self.grouped(2, 1, 6, 7, [7, 7], do_rotary=1, rotary_interleaved=1)
        for window in (1, 2, 4):
            self.grouped(1, 7, 0, 7, [7], local_window_size=window)
            self.grouped(1, 1, 6, 7, [7], local_window_size=window)
        self.grouped(1, 4, 0, 4, [4], bias=floats(1, 4, 4, 4))
        for more in ({"smooth_softmax": 1}, {"sink": floats(4)}):
            for rotary in (0, 1):
                self.grouped(2, 5, 0, 5, [5, 3], rows=[5, 3], do_rotary=rotary, **more)
            self.grouped(1, 1, 6, 7, [7], do_rotary=1, **more)
            self.grouped(1, 4, 0, 4, [4], bias=floats(1, 4, 4, 4), **more)
            for new, past in ((6, 0), (1, 5)):
                self.grouped(1, new, past, 6, [6], local_window_size=3, **more)

    def test_quantised(self):
        def bytes_of(*shape, kind=np.uint8):
            info = np.iinfo(kind)
            return random.integers(info.min, info.max, shape, endpoint=True).astype(kind)

        def scale(value):
            return np.array(value, np.float32)

        for kind in (np.uint8, np.int8):
            a, b, zero = bytes_of(2, 6, kind=kind), bytes_of(6, kind=kind), np.array(3, kind)
            for op in ("QLinearAdd", "QLinearMul"):
                inputs = {
                    "A": a,
                    "A_scale": scale(0.1),
                    "A_zero_point": zero,
                    "B": b,
                    "B_scale": scale(0.2),
                    "B_zero_point": zero,
                    "C_scale": scale(0.4),
                    "C_zero_point": zero,
                }
                fixed = tuple(name for name in inputs if "_" in name)
                self.check(Node(op, inputs, ["C"], weights=fixed), ranks=(1,))
        inputs = {
            "x": floats(3, 4),
            "y_scale": scale(0.1),
            "y_zero_point": np.array(9, np.uint8),
        }
        self.check(Node("QuantizeLinear", inputs, ["y"], weights=("y_scale", "y_zero_point")))
        inputs = {"x": bytes_of(3, 4), "x_scale": scale([0.1] * 4), "x_zero_point": bytes_of(4)}
        fixed = ("x_scale", "x_zero_point")
        self.check(Node("DequantizeLinear", inputs, ["y"], weights=fixed, axis=1))
        for bits in (4, 8):
            table = bytes_of(9, 64 * bits // 8)
            for zeros in (None, bytes_of(9, 4 * bits // 8)):
                inputs = {
                    "data": table,
                    "indices": random.integers(0, 9, (2, 3)),
                    "scales": floats(9, 4),
                    "zero_points": zeros,
                }
                self.check(
                    Node(
                        "GatherBlockQuantized",
                        inputs,
                        ["output"],
                        weights=("data", "scales", "zero_points"),
                        bits=bits,
                        block_size=16,
                        gather_axis=0,
                        quantize_axis=1,
                    )
                )

    def test_matmul_n_bits(self):
        depth, columns, block = 96, 24, 32
        for bits in (4, 8):
            for rows in (1, 7):
                inputs = {
                    "A": floats(2, rows, depth),
                    "B": random.integers(0, 256, (columns, 3, block * bits // 8)).astype(np.uint8),
                    "scales": floats(columns, 3, scale=0.1),
                }
                zeros = random.integers(0, 256, (columns, (3 * bits + 7) // 8)).astype(np.uint8)
                for more in ({}, {"zero_points": zeros}):
                    self.check(
                        Node(
                            "MatMulNBits",
                            {**inputs, **more},
                            ["Y"],
                            weights=("B", "scales", "zero_points"),
                            K=depth,
                            N=columns,
                            bits=bits,
                            block_size=block,
                        )
                    )

    def test_models_that_onnx_runtime_has_optimised(self):
        optimised = set()
        for folder in sorted(path.parent for path in MODELS.glob("*/model.onnx")):
            with self.subTest(folder.name):
                model = Model(folder.name)
                model.file = self.tmp / f"{folder.name}.onnx"
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 3
                options.graph_optimization_level = (
                    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
                )
                options.optimized_model_filepath = str(model.file)
                onnxruntime.InferenceSession(folder / "model.onnx", options)
                nodes = onnx.load(model.file).graph.node
                operators = {node.op_type for node in nodes if node.domain == "com.microsoft"}
                if not operators:
                    continue
                optimised |= operators
                bundle, out = self.tmp / folder.name, self.tmp / f"{folder.name}-out"
                model.partition(bundle, 2)
                autopar("run", "--dir", bundle, *model.input_options(), "--output-dir", out)
                self.assertLessEqual(model.error_of(out), TOLERANCE)
        self.assertTrue({"FusedMatMul", "SkipLayerNormalization", "QuickGelu"} <= optimised)

    def test_what_is_not_served_is_refused_by_name(self):
        inputs = {"query": floats(1, 2, 32), "key": floats(1, 2, 32), "value": floats(1, 2, 32)}
        node = Node("MultiHeadAttention", inputs, ["output"], num_heads=4)
        node.model.graph.node[0].output.extend(["", "", "qk"])
        node.model.graph.output.append(
            helper.make_tensor_value_info("qk", TensorProto.FLOAT, (1, 4, 2, 2))
        )
        onnx.save(node.model, self.tmp / "model.onnx")
        done = autopar(
            "partition", self.tmp / "model.onnx", "--ngpus", 1, "--out", self.tmp / "b", expect=1
        )
        self.assertIn("the_node", done.stderr)
        self.assertIn("'qk'", done.stderr)


if __name__ == "__main__":
    unittest.main()
