"""Draws of attention operators: shapes, masks, lengths, pasts, and what of them is a constant."""

from dataclasses import replace

import numpy as np

from drawn_cases import MICROSOFT, Case, answers_of_onnx_runtime, make_model


def rotary_tables(draw, rows, columns, kind=np.float32):
    angles = draw.random.uniform(0, 6.3, (rows, columns))
    return {"cos_cache": np.cos(angles).astype(kind), "sin_cache": np.sin(angles).astype(kind)}


def rotary_embedding(draw):
    kind = draw.choice(np.float16, np.float32, np.float32)
    batch, rows, heads = draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 3)
    depth, places = draw.choice(8, 16), rows + draw.integer(0, 6)
    attributes = draw.some(interleaved=draw.integer(0, 1))
    turned = depth
    shape = draw.choice((batch, rows, heads * depth), (batch, heads, rows, depth))
    if draw.chance(0.3):
        turned = depth // 2
        attributes |= {"num_heads": heads, "rotary_embedding_dim": turned}
    elif draw.chance(0.3):
        attributes["num_heads"] = heads
    positions = draw.choice(
        draw.integers(0, places - 1, batch, rows), draw.integers(0, places - rows, 1)
    )
    inputs = {
        "input": draw.floats(*shape, kind=kind),
        "position_ids": positions,
        **rotary_tables(draw, places, turned // 2, kind),
    }
    fixed = ("position_ids", "cos_cache", "sin_cache")
    return Case(inputs, ["output"], attributes, maybe_fixed=draw.choice(fixed, fixed[1:]))


def bias_on_scores(draw, batch, heads, rows, keys, kind=np.float32):
    """Some keys are all but hidden, as masks that are added have it."""
    shape = (draw.choice(1, batch), draw.choice(1, heads), rows, keys)
    bias = draw.floats(*shape, kind=kind)
    is_hidden = draw.random.random(shape) < 0.2
    is_hidden[..., 0] = False
    return np.where(is_hidden, kind(-1e4), bias)


def mask_of_keys(draw, batch, rows, keys, attributes):
    """Lengths; ends and begins; which keys each batch, or each query, sees.

    Where a mask adds -10000, the first key is seen: what is left of scores that all have lost so
    much is told by the order in which they were rounded."""
    ends = draw.integers(1, keys, batch, kind=np.int32)
    begins = draw.integers(0, keys, batch, kind=np.int32)
    seen = draw.integers(0, 1, batch, draw.choice(1, rows), keys, kind=np.int32)
    if attributes.get("mask_filter_value", -10000.0) < -100:
        begins[:] = 0
        seen[..., 0] = 1
    by_query = np.broadcast_to(seen, (batch, rows, keys)).copy()
    return draw.choice(None, ends, np.concatenate([ends, begins]), seen[:, 0].copy(), by_query)


def common_attributes(draw, heads, can_be_causal=True):
    attributes = {"num_heads": heads}
    attributes |= draw.some(unidirectional=draw.integer(0, 1)) if can_be_causal else {}
    more = draw.some(scale=0.3, mask_filter_value=draw.choice(-10000.0, -5.0))
    return attributes | (more if draw.chance(0.5) else {})


def attention(draw):
    batch, rows, width = draw.integer(1, 3), draw.integer(1, 6), draw.integer(2, 12)
    heads, depth = draw.integer(1, 3), draw.choice(4, 8)
    past = draw.integer(1, 4) if draw.chance(0.4) else 0
    value_depth = draw.choice(depth, depth if past else 2)
    sizes = [heads * depth, heads * depth, heads * value_depth]
    attributes = common_attributes(draw, heads)
    if value_depth != depth or draw.chance(0.2):
        attributes["qkv_hidden_sizes"] = sizes
    keys = past + rows
    width_of_all = sum(sizes)
    inputs = {
        "input": draw.floats(batch, rows, width),
        "weights": draw.floats(width, width_of_all, scale=width**-0.5),
        "bias": draw.optional(draw.floats(width_of_all), 0.7),
        "mask_index": mask_of_keys(draw, batch, rows, keys, attributes),
        "past": draw.floats(2, batch, heads, past, depth) if past else None,
        "attention_bias": bias_on_scores(draw, batch, heads, rows, keys)
        if not past and draw.chance(0.2)
        else None,
    }
    # ONNX Runtime's kernel reads a bias that is left out, and has no masks of the longest sequence.
    same_as = dict(inputs)
    if inputs["bias"] is None:
        same_as["bias"] = np.zeros(width_of_all, np.float32)
    if draw.chance(0.15) and not attributes.get("unidirectional"):
        longest = keys + draw.integer(0, 2)
        inputs["mask_index"] = draw.integers(0, 1, batch, 1, longest, longest, kind=np.int32)
        inputs["mask_index"][..., 0] = 1
        same_as["mask_index"] = inputs["mask_index"][:, 0, past:keys, :keys].copy()
    # Keys and values of two widths do not fit into one tensor.
    can_be_present = value_depth == depth and draw.chance()
    present = "present" if past or can_be_present else None
    fixed = ("weights", "bias", "mask_index") if draw.chance(0.3) else ("weights", "bias")
    return Case(inputs, ["output", present], attributes, maybe_fixed=fixed, same_as=same_as)


def multi_head_attention(draw):
    batch, rows, heads, depth = (
        draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 3), draw.choice(4, 8),
    )  # fmt: skip
    form = draw.choice("apart", "apart", "packed", "packed keys", "keys with heads")
    past = draw.integer(1, 4) if form == "apart" and draw.chance(0.5) else 0
    new_keys = rows if past or form == "packed" else draw.integer(1, 7)
    value_depth = draw.choice(depth, depth if past or form != "apart" else 2)
    keys = past + new_keys
    inputs = {
        "query": draw.floats(batch, rows, heads * depth),
        "key": draw.floats(batch, new_keys, heads * depth),
        "value": draw.floats(batch, new_keys, heads * value_depth),
    }
    if form == "keys with heads":
        inputs |= {name: draw.floats(batch, heads, new_keys, depth) for name in ("key", "value")}
    # ONNX Runtime shows a causal prompt's last query all keys, also those behind it, so there are
    # none.
    attributes = common_attributes(draw, heads, can_be_causal=new_keys == rows)
    width = heads * (2 * depth + value_depth)
    inputs |= {
        "bias": draw.optional(draw.floats(width)),
        "key_padding_mask": mask_of_keys(draw, batch, rows, keys, attributes)
        if draw.chance(0.7)
        else None,
        "attention_bias": bias_on_scores(draw, batch, heads, rows, keys)
        if draw.chance(0.3)
        else None,
        "past_key": draw.floats(batch, heads, past, depth) if past else None,
        "past_value": draw.floats(batch, heads, past, value_depth) if past else None,
    }
    # ONNX Runtime has kernels for what lies side by side on GPUs alone.
    same_as = dict(inputs)

    def side_by_side(*names):
        parts = [inputs[name].reshape(batch, -1, heads, depth) for name in names]
        return np.stack(parts, axis=3)

    if form == "packed":
        inputs |= {"query": side_by_side("query", "key", "value"), "key": None, "value": None}
    elif form == "packed keys":
        inputs |= {"key": side_by_side("key", "value"), "value": None}
    presents = draw.choice(["present_key", "present_value"], []) if not past else [
        "present_key", "present_value",
    ]  # fmt: skip
    fixed = draw.choice(("bias",), ("bias", "key_padding_mask"))
    return Case(
        inputs,
        ["output", *presents],
        attributes,
        maybe_fixed=fixed,
        same_as=same_as,
    )


class Sequences:
    """Where the new tokens of a GroupQueryAttention go: a prompt, perhaps padded and perhaps into a
    buffer; a further token, or several of one sequence; the cache as long as needed or a buffer
    with room. `lengths` are of each sequence with its new tokens.

    Not drawn are a total length of 1 beside longer sequences, which contradict each other, and new
    tokens for which there is no room, which ONNX Runtime refuses."""

    def __init__(self, draw):
        kind = draw.choice("prompt", "prompt", "token", "token", "chunk")
        self.batch = 1 if kind == "chunk" else draw.integer(1, 3)
        self.new = 1 if kind == "token" else draw.integer(2, 6)
        room = draw.integer(self.new + 1, 9)
        self.is_first = kind == "prompt"
        if self.is_first:
            self.past = draw.choice(0, room)
            self.total = self.new
        elif draw.chance():  # as long as needed
            self.past = draw.integer(1, 6)
            self.total = self.past + self.new
        else:
            self.past = room
            self.total = draw.integer(self.new + 1, room)
        least = 1 if self.is_first else self.new
        self.lengths = draw.integers(least, self.total, self.batch)
        if draw.chance(0.4):
            self.lengths[:] = self.total
        self.keys = max(self.past, self.total)

    def is_full(self):
        return self.past == 0 or self.total > self.past

    def token_counts(self):
        """[batch, new]: which new tokens are no padding."""
        end = self.lengths if self.is_first else np.full(self.batch, self.new)
        return np.arange(self.new) < end[:, None]

    def row_counts(self):
        """[batch, keys]: which rows of the present cache a sequence has."""
        end = np.full(self.batch, self.new) if self.is_first else self.lengths
        return np.arange(self.keys) < end[:, None]


def group_query_attention(draw, turns_halves=True):
    of = Sequences(draw)
    kind = draw.choice(np.float16, np.float32, np.float32, np.float32)
    key_heads, group = draw.integer(1, 2), draw.integer(1, 3)
    heads, depth = key_heads * group, draw.choice(8, 16, 16, 32)
    is_packed, turns = draw.chance(), depth >= 16 and draw.chance(0.6)
    turns = turns and (turns_halves or kind != np.float16)
    width = (heads + 2 * key_heads if is_packed else heads) * depth

    def keys():
        return None if is_packed else draw.floats(of.batch, of.new, key_heads * depth, kind=kind)

    def past():
        shape = (of.batch, key_heads, of.past, depth)
        return draw.floats(*shape, kind=kind) if of.past else None

    places = of.total + draw.integer(0, 5)
    tables = rotary_tables(draw, places, draw.choice(8, depth // 2), kind)
    inputs = {
        "query": draw.floats(of.batch, of.new, width, kind=kind),
        "key": keys(),
        "value": keys(),
        "past_key": past(),
        "past_value": past(),
        "seqlens_k": (of.lengths - 1).astype(np.int32),
        "total_sequence_length": np.array(of.total, np.int32).reshape(draw.choice((), (1,))),
        "cos_cache": tables["cos_cache"] if turns else None,
        "sin_cache": tables["sin_cache"] if turns else None,
        # A prompt's positions, counted on from the first one.
        "position_ids": draw.integers(0, places - of.new, of.batch, of.new)
        if turns and draw.chance(0.3)
        else None,
        "attention_bias": bias_on_scores(draw, of.batch, heads, of.new, of.total, kind)
        if draw.chance(0.25)
        else None,
        "head_sink": draw.floats(heads, kind=kind) if draw.chance(0.15) else None,
    }
    attributes = {"num_heads": heads, "kv_num_heads": key_heads}
    if turns:
        attributes |= {"do_rotary": 1, "rotary_interleaved": draw.integer(0, 1)}
    if draw.chance(0.3):
        attributes |= draw.some(softcap=draw.choice(2.0, 0.0), scale=0.3, smooth_softmax=1)
    has_window = draw.chance(0.25)
    if has_window:
        attributes["local_window_size"] = draw.integer(1, 5)
    elif draw.chance(0.15):
        attributes["causal"] = 0
    counts = {}
    if has_window and not of.token_counts().all():
        # ONNX Runtime's two kernels have different windows for padding.
        rows = of.token_counts()[:, :, None]
        counts["output"] = np.broadcast_to(rows, (of.batch, of.new, heads * depth)).copy()
    if not of.row_counts().all():
        # What stands in the cache behind a sequence is not told.
        rows = of.row_counts()[:, None, :, None]
        for name in ("present_key", "present_value"):
            counts[name] = np.broadcast_to(rows, (of.batch, key_heads, of.keys, depth)).copy()
    fixed = ["cos_cache", "sin_cache", "head_sink"]
    if draw.chance(0.3):
        fixed.append("seqlens_k")
    if draw.chance(0.3):
        fixed.append("position_ids")
    # A total that only the run tells fits into what was given.
    must = ("total_sequence_length",) if of.past and of.is_full() else ()
    return Case(
        inputs,
        ["output", "present_key", "present_value"],
        attributes,
        fixed=must,
        maybe_fixed=(*fixed, "total_sequence_length"),
        counts=counts,
    )


CACHES = {"k": "key", "v": "value"}


def quantised_group_query_attention(draw):
    """A case of the above whose caches hold integers. What is stored is asked for exactly, so no
    number is drawn that stands between two integers, where rounding may go either way; what is
    turned in half precision is rounded by as much as such a step."""
    while True:
        case = group_query_attention(draw, turns_halves=False)
        bits = draw.choice(8, 4)
        with_scales = quantised(draw, case, bits)
        if is_far_from_halves(draw, case, with_scales):
            return with_scales


def is_far_from_halves(draw, case, with_scales):
    """Whether no value lies near a half: what ONNX Runtime stores as floats, with empty pasts."""
    empty = {n: x if x is None else np.zeros_like(x) for n, x in pasts_of(case).items()}
    asked = replace(case, inputs=case.inputs | empty, counts={})
    stored = answers_of_onnx_runtime(*make_model(MICROSOFT, "GroupQueryAttention", asked, draw))
    for part, name in CACHES.items():
        scales = by_channel(with_scales.inputs[f"{part}_scale"], case)
        steps = stored[f"present_{name}"].astype(np.float32) / scales
        counts = case.counts.get(f"present_{name}", np.ones(steps.shape, bool))
        if np.abs(steps - np.floor(steps) - 0.5)[counts].min() < 1e-4:
            return False
    return True


def pasts_of(case):
    return {name: case.inputs[name] for name in ("past_key", "past_value")}


def depth_of(case):
    heads, key_heads = case.attributes["num_heads"], case.attributes["kv_num_heads"]
    parts = heads if case.inputs["key"] is not None else heads + 2 * key_heads
    return case.inputs["query"].shape[2] // parts


def by_channel(scale, case):
    """One for each element of each key head, whether or not they are alike."""
    key_heads = case.attributes["kv_num_heads"]
    all_scales = np.broadcast_to(scale.reshape(-1), key_heads * depth_of(case))
    return all_scales.reshape(1, key_heads, 1, -1).copy()


def quantised(draw, case, bits):
    kind = np.int8 if bits == 8 else np.uint8
    batch, key_heads = len(case.inputs["query"]), case.attributes["kv_num_heads"]
    depth = depth_of(case)
    width = depth * bits // 8
    inputs, attributes = dict(case.inputs), dict(case.attributes, kv_cache_bit_width=bits)
    for name, past in pasts_of(case).items():
        if past is not None:
            inputs[name] = draw.whole_range(*past.shape[:3], width, kind=kind)
    for part in CACHES:
        shape = draw.choice((1,), (1, key_heads, 1, depth), (key_heads, depth))
        attributes[f"{part}_quant_type"] = "PER_TENSOR" if shape == (1,) else "PER_CHANNEL"
        low, high = (0.01, 0.03) if bits == 8 else (0.15, 0.45)  # some numbers are too large
        inputs[f"{part}_scale"] = draw.positive(*shape, low=low, high=high)
    # ONNX Runtime wants a past, of no rows if there is none, and one form for keys and values.
    same_as, same_attributes = dict(inputs), dict(attributes)
    for name, past in pasts_of(case).items():
        if past is None:
            same_as[name] = np.zeros((batch, key_heads, 0, width), kind)
    if attributes["k_quant_type"] != attributes["v_quant_type"]:
        for part in CACHES:
            same_as[f"{part}_scale"] = by_channel(inputs[f"{part}_scale"], case)
            same_attributes[f"{part}_quant_type"] = "PER_CHANNEL"
    counts = {
        name: counted if name == "output" else counted[..., :width].copy()
        for name, counted in case.counts.items()
    }
    return replace(
        case,
        inputs=inputs,
        attributes=attributes,
        maybe_fixed=(*case.maybe_fixed, "k_scale", "v_scale"),
        counts=counts,
        kinds={"present_key": kind, "present_value": kind},
        same_as=same_as,
        same_attributes=same_attributes,
    )


# Further forms of operators that are drawn above, by what they are called in tests.
FORMS = {
    "quantised caches": ((MICROSOFT, "GroupQueryAttention"), quantised_group_query_attention),
}
DRAWN = {
    (MICROSOFT, "RotaryEmbedding"): rotary_embedding,
    (MICROSOFT, "Attention"): attention,
    (MICROSOFT, "MultiHeadAttention"): multi_head_attention,
    (MICROSOFT, "GroupQueryAttention"): group_query_attention,
}
