"""Draws of mixtures of experts, of lookups in quantised tables, and of the quantised parts of models
that ONNX Runtime's quantiser writes."""

import os

import ml_dtypes
import numpy as np

from drawn_cases import MICROSOFT, Case

# Blocks of 8 bits are else multiplied by tokens of 8 bits, which no rounding of ours would follow.
os.environ["ORT_QMOE_CPU_QNBIT_GEMM"] = "fp32"
ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activated(gate, linear, attributes):
    kind = attributes["activation_type"]
    if kind == "swiglu":
        limit = attributes.get("swiglu_limit", np.inf)
        gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        steep = sigmoid(attributes.get("activation_alpha", 1.0) * gate)
        return gate * steep * (linear + attributes.get("activation_beta", 0.0))
    tanh = np.tanh(0.7978845608 * (gate + 0.044715 * gate**3))
    made = {
        "relu": np.maximum(gate, 0),
        "gelu": 0.5 * gate * (1 + tanh),
        "silu": gate * sigmoid(gate),
        "identity": gate,
    }[kind]
    return made if linear is None else made * linear


def mixture(inputs, attributes):
    """What the operator's documents say, which ONNX Runtime's CPU refuses with a third product."""

    def product(x, expert, name):
        if inputs.get(f"{name}_experts_weights") is None:
            return None
        made = inputs[f"{name}_experts_weights"][expert].astype(np.float64) @ x
        bias = inputs.get(f"{name}_experts_bias")
        return made if bias is None else made + bias[expert]

    tokens = inputs["input"].reshape(-1, inputs["input"].shape[-1])
    logits = inputs["router_probs"].astype(np.float64)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    output = np.zeros(tokens.shape)
    for t, token in enumerate(tokens):
        chosen = np.argsort(-shares[t])[: attributes["k"]]
        own = shares[t][chosen]
        if attributes.get("normalize_routing_weights"):
            own = own / own.sum()
        for expert, share in zip(chosen, own, strict=True):
            first, third = product(token, expert, "fc1"), product(token, expert, "fc3")
            if third is None and attributes.get("swiglu_fusion") == 2:
                first, third = np.split(first, 2)
            if third is None and attributes.get("swiglu_fusion") == 1:
                first, third = first[0::2], first[1::2]
            output[t] += share * product(activated(first, third, attributes), expert, "fc2")
    return output.reshape(inputs["input"].shape).astype(np.float32)


def sizes(draw, multiple=1):
    """Tokens, hidden numbers, numbers between the products, experts, experts a token."""
    experts = draw.integer(1, 6)
    return (
        draw.choice((draw.integer(1, 9),), (draw.integer(1, 3), draw.integer(1, 4))),
        draw.integer(1, 4) * multiple,
        draw.integer(1, 4) * multiple,
        experts,
        draw.integer(1, min(3, experts)),
    )


def attributes_of(draw, chosen, kind, fusion):
    attributes = {"k": chosen, "activation_type": kind, "swiglu_fusion": fusion}
    attributes |= draw.some(normalize_routing_weights=draw.integer(0, 1))
    if kind == "swiglu":
        attributes |= draw.some(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.7)
    return attributes


def moe(draw):
    tokens, hidden, inner, experts, chosen = sizes(draw)
    kind = draw.choice(*ACTIVATIONS)
    has_third = draw.chance(0.25)
    # The one that ONNX Runtime's CPU computes is 1.
    fusion = 0 if has_third or kind != "swiglu" else draw.choice(1, 1, 1, 2)
    width = 2 * inner if kind == "swiglu" and not has_third else inner
    inputs = {
        "input": draw.floats(*tokens, hidden),
        "router_probs": draw.floats(int(np.prod(tokens)), experts),
        "fc1_experts_weights": draw.floats(experts, width, hidden),
        "fc1_experts_bias": draw.optional(draw.floats(experts, width)),
        "fc2_experts_weights": draw.floats(experts, hidden, inner),
        "fc2_experts_bias": draw.optional(draw.floats(experts, hidden)),
    }
    if has_third:
        inputs["fc3_experts_weights"] = draw.floats(experts, inner, hidden)
        inputs["fc3_experts_bias"] = draw.optional(draw.floats(experts, inner))
    attributes = attributes_of(draw, chosen, kind, fusion)
    expected = None
    if has_third or fusion == 2:
        expected = {"output": mixture(inputs, attributes)}
    weights = tuple(name for name in inputs if name.startswith("fc"))
    return Case(inputs, ["output"], attributes, fixed=weights, expected=expected)


def packed(numbers, bits):
    """Bytes of 8 / bits numbers each along the last dimension, the lowest bits first."""
    count = 8 // bits
    missing = -numbers.shape[-1] % count
    padded = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], missing), numbers.dtype)], -1)
    parts = padded.reshape(*numbers.shape[:-1], -1, count)
    return sum(parts[..., i] << (bits * i) for i in range(count)).astype(np.uint8)


def packed_weights(draw, name, shape, bits, block, kind, has_zeros):
    """Inputs of one product, and the numbers that they stand for."""
    experts, columns, depth = shape
    blocks = -(-depth // block) if block else 1
    values = draw.integers(0, 2**bits - 1, *shape)
    # Answers of about 1: of scales 20 times as large they reach 1e5, and ONNX Runtime's own float32
    # is farther from float64 than our tolerance where such numbers cancel out.
    step = 2.0 ** (1 - bits)
    scales = draw.positive(experts, columns, blocks, low=step / 20, high=step / 5, kind=kind)
    zeros = np.full(scales.shape, 2 ** (bits - 1))
    inputs = {f"{name}_experts_weights": packed(values, bits)}
    inputs[f"{name}_scales"] = scales if block else scales[..., 0].copy()
    if has_zeros:
        zeros = draw.integers(0, 2**bits - 1, *scales.shape)
        inputs[f"{name}_zero_points"] = packed(zeros if block else zeros[..., 0], bits)
    wide = lambda x: np.repeat(x, block or depth, axis=2)[..., :depth]
    return inputs, (values - wide(zeros)) * wide(scales).astype(np.float64)


QMOE_INPUTS = [
    "input", "router_probs",
    "fc1_experts_weights", "fc1_scales", "fc1_experts_bias",
    "fc2_experts_weights", "fc2_scales", "fc2_experts_bias",
    "fc3_experts_weights", "fc3_scales", "fc3_experts_bias",
    "fc1_zero_points", "fc2_zero_points", "fc3_zero_points", "router_weights",
]  # fmt: skip


def qmoe(draw):
    block = draw.choice(0, 16, 32)
    tokens, hidden, inner, experts, chosen = sizes(draw, multiple=32)
    number = draw.choice(np.float32, np.float32, np.float32, np.float16)
    kind = draw.choice(*ACTIVATIONS)
    bits = draw.choice(2, 4, 4, 8)
    own_bits = draw.choice(bits, bits, 4, 8)  # of the second product
    width = 2 * inner if kind == "swiglu" else inner
    inputs = dict.fromkeys(QMOE_INPUTS)
    inputs["input"] = draw.floats(*tokens, hidden, kind=number)
    inputs["router_probs"] = draw.floats(int(np.prod(tokens)), experts, kind=number)
    has_zeros = draw.chance()
    plain = dict(inputs)
    for name, shape, of in (
        ("fc1", (experts, width, hidden), bits),
        ("fc2", (experts, hidden, inner), own_bits),
    ):
        weights, values = packed_weights(draw, name, shape, of, block, number, has_zeros)
        inputs |= weights
        plain[f"{name}_experts_weights"] = values
        bias = f"{name}_experts_bias"
        inputs[bias] = plain[bias] = draw.optional(draw.floats(*shape[:2], kind=number))
    attributes = attributes_of(draw, chosen, kind, 1 if kind == "swiglu" else 0)
    attributes |= {"expert_weight_bits": bits, "weights_prepacked": 0}
    expected = None
    # ONNX Runtime's CPU has no different bits. Of 2 bits and blocks of 32 it rounds tokens to 8
    # bits: its answers are then up to 600 times our tolerance away from those of float64.
    if own_bits != bits or (bits == 2 and block == 32):
        attributes |= {"fc2_expert_weight_bits": own_bits} if own_bits != bits else {}
        always = attributes | {"normalize_routing_weights": 1}
        expected = {"output": mixture(plain, always).astype(number)}
    elif draw.chance(0.3):
        inputs["router_weights"] = draw.positive(*inputs["router_probs"].shape, kind=number)
    if block:
        attributes["block_size"] = block
    weights = tuple(name for name in inputs if name.startswith("fc"))
    return Case(inputs, ["output"], attributes, fixed=weights, expected=expected)


def gathered_bytes(draw):
    bits, block = draw.choice(2, 4, 8), draw.choice(16, 32)
    count = 8 // bits
    rest = draw.shape(0, 1, 3)
    columns = draw.integer(1, 4) * 16
    rows = draw.integer(2, 7)
    blocks = -(-columns // block)
    data = packed(draw.integers(0, 2**bits - 1, rows, *rest, columns), bits)
    zeros = packed(draw.integers(0, 2**bits - 1, rows, *rest, blocks), bits)
    assert data.shape[-1] * count == columns
    kind = draw.choice(np.float32, np.float16)
    inputs = {
        "data": data,
        "indices": draw.integers(-rows, rows - 1, *draw.shape(0, 2, 4)),
        "scales": draw.positive(rows, *rest, blocks, kind=kind),
        "zero_points": draw.optional(zeros),
    }
    attributes = {"bits": bits, "block_size": block, "gather_axis": 0}
    attributes["quantize_axis"] = draw.choice(-1, data.ndim - 1)
    return Case(inputs, ["output"], attributes, fixed=("data", "scales", "zero_points"))


def gathered_types(draw):
    """4 bits, along any dimensions."""
    element, low = draw.choice((ml_dtypes.int4, -8), (ml_dtypes.uint4, 0))
    block = draw.choice(16, 32)
    shape = list(draw.shape(2, 3, 5))
    gathered, quantized = draw.integer(0, len(shape) - 1), draw.integer(0, len(shape) - 1)
    shape[quantized] = draw.integer(1, 50)
    blocks = list(shape)
    blocks[quantized] = -(-shape[quantized] // block)
    numbers = lambda shape: draw.integers(low, low + 15, *shape).astype(element)
    extent = shape[gathered]
    inputs = {
        "data": numbers(shape),
        "indices": draw.integers(-extent, extent - 1, *draw.shape(0, 2, 4)),
        "scales": draw.positive(*blocks),
        "zero_points": draw.optional(numbers(blocks)),
    }
    attributes = {"block_size": block, "gather_axis": gathered, "quantize_axis": quantized}
    return Case(inputs, ["output"], attributes, fixed=("data", "scales", "zero_points"))


def gather_block_quantized(draw):
    return draw.choice(gathered_bytes, gathered_types)(draw)


def qembed_layer_normalization(draw):
    kind = draw.choice(np.uint8, np.int8)
    batch, length, hidden = draw.integer(1, 3), draw.integer(1, 6), draw.integer(2, 20)
    words, segments = draw.integer(2, 9), draw.integer(1, 3)
    has_segments, has_mask = draw.chance(), draw.chance()
    one = lambda: draw.positive(*draw.choice((), (1,)))
    zero = lambda: draw.integers(100, 156, kind=np.int64).astype(kind)
    ids = lambda most: draw.integers(0, most - 1, batch, length, kind=np.int32)
    inputs = {
        "input_ids": ids(words),
        "segment_ids": ids(segments) if has_segments else None,
        "word_embedding_quant": draw.whole_range(words, hidden, kind=kind),
        "position_embedding_quant": draw.whole_range(length + draw.integer(0, 3), hidden, kind=kind),
        "segment_embedding": draw.whole_range(segments, hidden, kind=kind) if has_segments else None,
        "gamma_quant": draw.whole_range(hidden, kind=kind),
        "beta_quant": draw.whole_range(hidden, kind=kind),
        "mask": draw.integers(0, 1, batch, length, kind=np.int32) if has_mask else None,
        "word_embedding_scale": one(),
        "position_embedding_scale": one(),
        "segment_embedding_scale": one() if has_segments else None,
        "gamma_scale": one(),
        "beta_scale": one(),
        "word_embedding_zero_point": zero(),
        "position_embedding_zero_point": zero(),
        "segment_embedding_zero_point": zero() if has_segments else None,
        "gamma_zero_point": zero(),
        "beta_zero_point": zero(),
    }
    fixed = tuple(n for n in inputs if n not in ("input_ids", "segment_ids", "mask"))
    outputs = ["layernorm_out", "mask_index_out"]
    return Case(inputs, outputs, draw.some(epsilon=1e-5), fixed=fixed)


def qattention(draw):
    kind = draw.choice(np.uint8, np.int8)
    batch, length, heads, depth = (draw.integer(1, 3) for _ in range(4))
    depth *= 2
    features, hidden = draw.integer(1, 12), heads * depth
    past = draw.integer(1, 4) if draw.chance(0.4) else 0
    columns = draw.choice((), (3 * hidden,))
    zero = 128 if kind == np.uint8 else 0
    zeros = draw.integers(zero - 9, zero + 9, *columns, kind=np.int64).astype(kind)
    is_causal = draw.chance(0.4)
    masks = [None, draw.integers(1, length + past, batch, kind=np.int32)]
    masks.append(draw.integers(0, 1, batch, length + past, kind=np.int32))
    inputs = {
        "input": draw.whole_range(batch, length, features),
        "weight": draw.weights(features, 3 * hidden, kind=kind),
        "bias": draw.floats(3 * hidden),
        "input_scale": draw.positive(high=0.03),
        "weight_scale": draw.positive(*columns, low=0.005, high=0.02),
        "mask_index": None if is_causal else draw.choice(*masks),
        "input_zero_point": draw.optional(draw.integers(100, 156, kind=np.uint8)),
        "weight_zero_point": draw.optional(zeros),
        "past": draw.floats(2, batch, heads, past, depth) if past else None,
    }
    attributes = {"num_heads": heads, "unidirectional": int(is_causal)}
    fixed = ("weight", "bias", "input_scale", "weight_scale", "input_zero_point",
             "weight_zero_point")  # fmt: skip
    outputs = ["output", "present"] if past or draw.chance() else ["output"]
    return Case(inputs, outputs, attributes, fixed=fixed)


def dynamic_quantize_lstm(draw):
    """Small numbers of steps: a state that is rounded to the next byte moves all that follows."""
    direction = draw.choice("forward", "reverse", "bidirectional")
    directions = 2 if direction == "bidirectional" else 1
    steps, batch = draw.integer(1, 3), draw.integer(1, 3)
    features, hidden = draw.integer(1, 8), draw.integer(1, 8)
    kind = draw.choice(np.uint8, np.int8)
    per_column = draw.chance()
    scale_shape = (directions, 4 * hidden) if per_column else (directions,)
    zero = draw.integer(120, 136) if kind == np.uint8 else 0
    zeros = np.full(scale_shape, zero, kind)
    scales = lambda: draw.positive(*scale_shape, low=0.002, high=0.01)
    state = lambda: draw.optional(draw.floats(directions, batch, hidden, scale=0.5))
    inputs = {
        "X": draw.floats(steps, batch, features),
        "W": draw.weights(directions, features, 4 * hidden, kind=kind),
        "R": draw.weights(directions, hidden, 4 * hidden, kind=kind),
        "B": draw.optional(draw.floats(directions, 8 * hidden)),
        "sequence_lens": None,
        "initial_h": state(),
        "initial_c": state(),
        "P": draw.optional(draw.floats(directions, 3 * hidden), 0.3),
        "W_scale": scales(),
        "W_zero_point": zeros,
        "R_scale": scales(),
        "R_zero_point": zeros,
    }
    fixed = ("W", "R", "B", "P", "W_scale", "W_zero_point", "R_scale", "R_zero_point")
    attributes = {"direction": direction, "hidden_size": hidden}
    return Case(inputs, ["Y", "Y_h", "Y_c"], attributes, fixed=fixed)


DRAWN = {
    (MICROSOFT, "MoE"): moe,
    (MICROSOFT, "QMoE"): qmoe,
    (MICROSOFT, "GatherBlockQuantized"): gather_block_quantized,
    (MICROSOFT, "QEmbedLayerNormalization"): qembed_layer_normalization,
    (MICROSOFT, "QAttention"): qattention,
    (MICROSOFT, "DynamicQuantizeLSTM"): dynamic_quantize_lstm,
}
