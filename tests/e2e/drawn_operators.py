"""Draws of normalisations, activations, products and classical models."""

import math

import numpy as np

from drawn_cases import MICROSOFT, ML, ONNX, Case

HALF, SINGLE, DOUBLE = np.float16, np.float32, np.float64
erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# Normalisations


def simplified_layer_normalization(draw):
    kind = draw.choice(HALF, SINGLE, SINGLE, DOUBLE)
    shape = draw.shape(2, 4)
    axis = draw.integer(1, len(shape) - 1)
    inputs = {
        "X": draw.floats(*shape, kind=kind),
        "scale": draw.floats(*shape[axis:], kind=kind),
    }
    axis = draw.choice(axis, axis - len(shape))
    more = draw.some(epsilon=draw.choice(1e-6, 1e-3))
    return Case(inputs, ["Y"], {"axis": axis, **more}, maybe_fixed=("scale",))


def skipped(draw):
    kind = draw.choice(HALF, SINGLE, SINGLE)
    batch, rows, width = draw.integer(1, 3), draw.integer(1, 5), draw.integer(2, 20)
    skips = ((batch, rows, width), (1, rows, width), (rows, width))
    shape = draw.choice(skips[0], skips[0], skips[2])
    skip = draw.choice(*skips) if len(shape) == 3 else shape

    def row():
        return draw.floats(width, kind=kind)

    inputs = {
        "input": draw.floats(*shape, kind=kind),
        "skip": draw.floats(*skip, kind=kind),
        "gamma": row(),
    }
    # ONNX Runtime leaves mean and inv_std_var, which are for training, unwritten.
    outputs = ["output", None, None, draw.choice("input_skip_bias_sum", None)]
    attributes = draw.some(epsilon=draw.choice(1e-6, 1e-2))
    return inputs, outputs, attributes, row


def skip_layer_normalization(draw):
    inputs, outputs, attributes, row = skipped(draw)
    inputs |= {"beta": draw.optional(row()), "bias": draw.optional(row())}
    return Case(inputs, outputs, attributes, maybe_fixed=("gamma", "beta", "bias", "skip"))


def skip_simplified_layer_normalization(draw):
    inputs, outputs, attributes, row = skipped(draw)
    inputs |= {"bias": draw.optional(row())}
    return Case(inputs, outputs, attributes, maybe_fixed=("gamma", "bias", "skip"))


def embed_layer_normalization(draw):
    batch, rows, width, words = draw.integer(1, 3), draw.integer(1, 6), draw.integer(2, 16), 9
    places = rows + draw.integer(0, 3)

    def ids(most, *shape):
        return draw.integers(0, most - 1, *shape, kind=np.int32)

    has_segments = draw.chance(0.7)
    inputs = {
        "input_ids": ids(words, batch, rows),
        "segment_ids": ids(2, batch, rows) if has_segments else None,
        "word_embedding": draw.floats(words, width),
        "position_embedding": draw.floats(places, width),
        "segment_embedding": draw.floats(2, width) if has_segments else None,
        "gamma": draw.floats(width),
        "beta": draw.floats(width),
        "mask": draw.optional(draw.integers(0, 2, batch, rows, kind=np.int32)),
        "position_ids": draw.optional(ids(places, draw.choice(1, batch), rows)),
    }
    outputs = ["output", draw.choice("mask_index", None), draw.choice("embedding_sum", None)]
    tables = ("word_embedding", "position_embedding", "segment_embedding", "gamma", "beta")
    more = ("segment_ids", "position_ids", "mask")
    return Case(
        inputs, outputs, draw.some(epsilon=1e-5), maybe_fixed=draw.choice(tables, tables + more)
    )


def normalized_groups(draw, has_skip):
    """Computed by the definition: ONNX Runtime has no kernel for CPUs."""
    groups, channels = draw.integer(1, 3), draw.integer(1, 4)
    channels *= groups
    batch, height, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 5)
    last = draw.chance(0.7)
    shape = (batch, height, width, channels) if last else (batch, channels, height, width)
    inputs = {
        "X": draw.floats(*shape),
        "gamma": draw.floats(channels),
        "beta": draw.floats(channels),
    }
    epsilon = draw.choice(1e-5, 1e-3)
    x = inputs["X"].astype(DOUBLE) if last else np.moveaxis(inputs["X"].astype(DOUBLE), 1, -1)
    outputs = ["Y"]
    if has_skip:
        narrow = (
            draw.choice((batch, channels), (batch, 1, 1, channels)) if last else (batch, channels)
        )
        inputs["skip"] = draw.floats(*draw.choice(shape, narrow))
        inputs["bias"] = draw.optional(draw.floats(channels))
        skip = inputs["skip"]
        if skip.ndim == 2:
            skip = skip[:, None, None, :]
        elif not last:
            skip = np.moveaxis(skip, 1, -1)
        x = x + skip + (inputs["bias"] if inputs["bias"] is not None else 0)
        outputs.append(draw.choice("S", None))
    whole = x
    x = x.reshape(batch, height, width, groups, channels // groups)
    mean, variance = x.mean((1, 2, 4), keepdims=True), x.var((1, 2, 4), keepdims=True)
    y = ((x - mean) / np.sqrt(variance + epsilon)).reshape(whole.shape)
    y = y * inputs["gamma"] + inputs["beta"]
    attributes = {"groups": groups, "channels_last": int(last), "epsilon": epsilon}
    attributes["activation"] = draw.integer(0, 1)
    if attributes["activation"]:
        y = y * sigmoid(y)
    expected = {
        name: np.ascontiguousarray(array if last else np.moveaxis(array, -1, 1)).astype(SINGLE)
        for name, array in (("Y", y), ("S", whole))
        if name in outputs
    }
    return Case(
        inputs, outputs, attributes, maybe_fixed=("gamma", "beta", "bias"), expected=expected
    )


def group_norm(draw):
    return normalized_groups(draw, has_skip=False)


def skip_group_norm(draw):
    return normalized_groups(draw, has_skip=True)


# Activations


def plain_gelu(draw):
    return Case({"X": draw.floats(*draw.shape(1, 4), scale=2)}, ["Y"])


def fast_gelu(draw):
    x = draw.floats(*draw.shape(1, 4), scale=2)
    bias = draw.optional(draw.floats(x.shape[-1]))
    return Case({"X": x, "bias": bias}, ["Y"], maybe_fixed=("bias",))


def bias_gelu(draw):
    a = draw.floats(*draw.shape(1, 4), scale=2)
    return Case({"A": a, "B": draw.floats(a.shape[-1])}, ["C"], maybe_fixed=("B",))


def quick_gelu(draw):
    x = draw.floats(*draw.shape(1, 4), scale=2)
    return Case({"X": x}, ["Y"], draw.some(alpha=draw.choice(1.0, 0.5, -1.3)))


def bias_split_gelu(draw):
    batch, rows, half = draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 9)
    x, bias = draw.floats(batch, rows, 2 * half), draw.floats(2 * half)
    left, right = np.split(x.astype(DOUBLE) + bias, 2, axis=-1)
    expected = {"Y": (left * gelu(right)).astype(SINGLE)}
    return Case({"X": x, "bias": bias}, ["Y"], maybe_fixed=("bias",), expected=expected)


def bias_add(draw):
    shape = draw.shape(3, 3)
    inputs = {"X": draw.floats(*shape), "bias": draw.floats(shape[-1]), "skip": draw.floats(*shape)}
    expected = {"Y": inputs["X"] + inputs["bias"] + inputs["skip"]}
    return Case(inputs, ["Y"], maybe_fixed=("bias",), expected=expected)


# Products


def operands(draw, transposes_batch):
    """Two operands as the attributes beside them say, and what they are without."""
    kind = draw.choice(SINGLE, SINGLE, DOUBLE)
    m, k, n = draw.integer(1, 6), draw.integer(1, 7), draw.integer(1, 6)
    attributes = {"transA": draw.integer(0, 1), "transB": draw.integer(0, 1)}
    batch = draw.shape(0, 2, 3)
    plain = {"A": draw.floats(*batch, m, k, kind=kind), "B": draw.floats(*batch, k, n, kind=kind)}
    if batch and transposes_batch:
        attributes |= {"transBatchA": draw.integer(0, 1), "transBatchB": draw.integer(0, 1)}
    elif batch:
        other = draw.choice("A", "B")
        rows, columns = plain[other].shape[-2:]
        plain[other] = draw.floats(*draw.broadcast(batch), rows, columns, kind=kind)
    given = {}
    for name, array in plain.items():
        if attributes[f"trans{name}"]:
            array = array.swapaxes(-1, -2)
        if attributes.get(f"transBatch{name}"):
            # What stands right before the last dimension is the first one.
            array = np.moveaxis(array, -2, 0)
        given[name] = np.ascontiguousarray(array)
    return given, attributes, plain


def matmul(draw, transposes_batch, kinds=(SINGLE, DOUBLE)):
    given, attributes, _ = operands(draw, transposes_batch)
    if given["A"].dtype not in kinds:
        given = {name: array.astype(SINGLE) for name, array in given.items()}
    if draw.chance(0.1):
        # One of them a vector. ONNX Runtime multiplies it by what is not transposed, whatever
        # transA and transB say.
        name, k = draw.choice(("A", given["B"].shape[-2]), ("B", given["A"].shape[-1]))
        given[name] = draw.floats(k, kind=given[name].dtype)
        attributes = {}
    attributes |= draw.some(alpha=draw.choice(0.5, -2.0))
    return Case(given, ["Y"], attributes, maybe_fixed=("B",))


def fused_matmul(draw):
    return matmul(draw, draw.chance())


def transpose_matmul(draw):
    return matmul(draw, False, kinds=(SINGLE,))


# y = f(x), by the names that fused operators know, with the numbers that some of them take.
ACTIVATIONS = {
    "Relu": (0, lambda x: np.maximum(x, 0)),
    "Sigmoid": (0, sigmoid),
    "Tanh": (0, np.tanh),
    "LeakyRelu": (1, lambda x, a: np.where(x < 0, a * x, x)),
    "HardSigmoid": (2, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "Elu": (1, lambda x, a: np.where(x < 0, a * np.expm1(x), x)),
    "Softplus": (0, lambda x: np.logaddexp(x, 0)),
}


def activation(draw, names=tuple(ACTIVATIONS)):
    """A name and its numbers."""
    name = draw.choice(*names)
    count = ACTIVATIONS[name][0] if name in ACTIVATIONS else 2
    numbers = [float(np.float32(draw.random.uniform(0.05, 0.9))) for _ in range(count)]
    return name, numbers


def named_numbers(numbers):
    return dict(zip(("activation_alpha", "activation_beta"), numbers))


def fused_matmul_activation(draw):
    """Computed by the definition: ONNX Runtime has no kernel for CPUs."""
    given, attributes, plain = operands(draw, draw.chance())
    alpha = draw.choice(1.0, 0.5, -2.0)
    name, numbers = activation(draw)
    y = alpha * np.matmul(plain["A"].astype(DOUBLE), plain["B"].astype(DOUBLE))
    expected = {"Y": ACTIVATIONS[name][1](y, *numbers).astype(given["A"].dtype)}
    attributes |= {"alpha": alpha, "activation": name, **named_numbers(numbers)}
    return Case(given, ["Y"], attributes, maybe_fixed=("B",), expected=expected)


def fused_gemm(draw):
    m, k, n = draw.integer(1, 6), draw.integer(1, 7), draw.integer(1, 6)
    attributes = {"transA": draw.integer(0, 1), "transB": draw.integer(0, 1)}
    c = draw.choice((), (1,), (n,), (m, 1), (1, n), (m, n))
    inputs = {
        "A": draw.floats(*((k, m) if attributes["transA"] else (m, k))),
        "B": draw.floats(*((n, k) if attributes["transB"] else (k, n))),
        "C": draw.optional(draw.floats(*c), 0.7),
    }
    attributes |= draw.some(alpha=draw.choice(0.5, -2.0), beta=draw.choice(0.3, -1.0))
    name, numbers = activation(draw)
    attributes |= {"activation": name, **(named_numbers(numbers) if draw.chance(0.8) else {})}
    return Case(inputs, ["Y"], attributes, maybe_fixed=("B", "C"))


def fused_conv(draw):
    dims = draw.integer(1, 2)
    groups = draw.integer(1, 2)
    inner, outer = draw.integer(1, 3), groups * draw.integer(1, 3)
    kernel = tuple(draw.integer(1, 3) for _ in range(dims))
    extents = tuple(draw.integer(5, 9) for _ in range(dims))
    strides = [draw.integer(1, 2) for _ in range(dims)]
    dilations = [draw.integer(1, 2) for _ in range(dims)]
    pads = [draw.integer(0, 1) for _ in range(2 * dims)]
    inputs = {
        "X": draw.floats(draw.integer(1, 3), groups * inner, *extents),
        "W": draw.floats(outer, inner, *kernel),
        "B": draw.optional(draw.floats(outer)),
        "Z": None,
    }
    attributes = {"group": groups, "kernel_shape": list(kernel), "strides": strides}
    padded = extents
    if draw.chance(0.2):
        attributes["auto_pad"] = draw.choice("VALID", "SAME_UPPER", "SAME_LOWER")
    else:
        attributes |= {"dilations": dilations, "pads": pads}
        padded = [
            (e + pads[i] + pads[i + dims] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
            for i, e in enumerate(extents)
        ]
        if draw.chance(0.3):
            inputs["Z"] = draw.floats(inputs["X"].shape[0], outer, *padded)
    name, numbers = activation(
        draw, ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Clip")
    )
    attributes["activation"] = name
    if numbers:
        attributes["activation_params"] = sorted(numbers)
    return Case(inputs, ["Y"], attributes, maybe_fixed=("W", "B"))


def gemm_fast_gelu(draw):
    """Computed by the definition: ONNX Runtime has no kernel for CPUs."""
    shape, k, n = draw.shape(1, 2), draw.integer(1, 7), draw.integer(1, 6)
    inputs = {
        "X": draw.floats(*shape, k),
        "W": draw.floats(k, n),
        "bias": draw.optional(draw.floats(n)),
    }
    product = inputs["X"].astype(DOUBLE) @ inputs["W"]
    if inputs["bias"] is not None:
        product = product + inputs["bias"]
    expected = {"Y": tanh_gelu(product).astype(SINGLE)}
    return Case(inputs, ["Y"], maybe_fixed=("W", "bias"), expected=expected)


def matmul_n_bits(draw):
    bits, block = draw.choice(4, 8), draw.choice(16, 32)
    blocks, columns = draw.integer(1, 4), draw.integer(1, 12)
    depth = blocks * block - (draw.integer(0, block - 1) if draw.chance(0.3) else 0)
    zero_bytes = (blocks * bits + 7) // 8
    zeros = draw.choice(
        None,
        draw.whole_range(columns * zero_bytes).reshape(columns, zero_bytes),
        draw.floats(columns, blocks, scale=2.0) + SINGLE(2 ** (bits - 1)),
    )
    inputs = {
        "A": draw.floats(*draw.shape(1, 2, 4), depth),
        "B": draw.whole_range(columns, blocks, block * bits // 8),
        "scales": draw.floats(columns, blocks, scale=0.1),
        "zero_points": zeros,
        "g_idx": None,
        "bias": draw.optional(draw.floats(columns)),
    }
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    # At accuracy level 4 ONNX Runtime rounds A to 8 bits, which is no one else's number.
    attributes |= draw.some(accuracy_level=draw.choice(0, 1))
    return Case(
        inputs,
        ["Y"],
        attributes,
        fixed=("B", "scales", "zero_points"),
        maybe_fixed=("bias",),
        tolerance=(1e-3, 1e-3),
    )


# Classical models


def array_feature_extractor(draw):
    kind = draw.choice(SINGLE, DOUBLE, np.int64, np.int32)
    x = draw.floats(*draw.shape(1, 4), scale=9).astype(kind)
    count = draw.integer(1, 4)
    y = draw.integers(0, x.shape[-1] - 1, *draw.choice((count,), (1, count)))
    return Case({"X": x, "Y": y}, ["Z"], maybe_fixed=("Y",))


def binarizer(draw):
    x = draw.integers(-2, 2, *draw.shape(1, 3), kind=SINGLE)
    return Case({"X": x}, ["Y"], draw.some(threshold=draw.choice(0.0, 1.0, -0.5)))


def tf_idf_vectorizer(draw):
    items = draw.integer(2, 5)
    lengths = draw.integer(1, 3)
    pool, counts, grams = [], [], 0
    for length in range(1, lengths + 1):
        counts.append(len(pool))
        distinct = {tuple(draw.integers(0, items, length)) for _ in range(draw.integer(1, 4))}
        for gram in sorted(distinct):
            pool += map(int, gram)
            grams += 1
    indexes = [int(i) for i in draw.random.permutation(grams + draw.integer(0, 2))[:grams]]
    shortest = draw.integer(1, lengths)
    attributes = {
        "mode": draw.choice("TF", "IDF", "TFIDF"),
        "min_gram_length": shortest,
        "max_gram_length": draw.integer(shortest, lengths),
        "max_skip_count": draw.integer(0, 3),
        "ngram_counts": counts,
        "ngram_indexes": indexes,
        "pool_int64s": pool,
    }
    if draw.chance():
        attributes["weights"] = [float(w) for w in draw.positive(grams, low=0.5, high=3)]
    shape = draw.choice((draw.integer(1, 12),), (draw.integer(1, 4), draw.integer(1, 12)))
    return Case(
        {"X": draw.integers(0, items, *shape, kind=draw.choice(np.int32, np.int64))},
        ["Y"],
        attributes,
    )


def scaler(draw):
    kind = draw.choice(SINGLE, DOUBLE, np.int64, np.int32)
    rows, columns = draw.integer(1, 5), draw.integer(1, 6)
    numbers = draw.choice(1, columns)
    attributes = {
        "offset": [float(x) for x in draw.floats(numbers)],
        "scale": [float(x) for x in draw.floats(numbers)],
    }
    x = draw.floats(rows, columns, scale=5).astype(kind)
    return Case({"X": x}, ["Y"], attributes)


DRAWN = {
    (ONNX, "SimplifiedLayerNormalization"): simplified_layer_normalization,
    (MICROSOFT, "SkipLayerNormalization"): skip_layer_normalization,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): skip_simplified_layer_normalization,
    (MICROSOFT, "EmbedLayerNormalization"): embed_layer_normalization,
    (MICROSOFT, "GroupNorm"): group_norm,
    (MICROSOFT, "SkipGroupNorm"): skip_group_norm,
    (MICROSOFT, "Gelu"): plain_gelu,
    (MICROSOFT, "FastGelu"): fast_gelu,
    (MICROSOFT, "BiasGelu"): bias_gelu,
    (MICROSOFT, "QuickGelu"): quick_gelu,
    (MICROSOFT, "BiasSplitGelu"): bias_split_gelu,
    (MICROSOFT, "BiasAdd"): bias_add,
    (MICROSOFT, "FusedMatMul"): fused_matmul,
    (MICROSOFT, "TransposeMatMul"): transpose_matmul,
    (MICROSOFT, "FusedMatMulActivation"): fused_matmul_activation,
    (MICROSOFT, "FusedGemm"): fused_gemm,
    (MICROSOFT, "FusedConv"): fused_conv,
    (MICROSOFT, "GemmFastGelu"): gemm_fast_gelu,
    (MICROSOFT, "MatMulNBits"): matmul_n_bits,
    (ML, "ArrayFeatureExtractor"): array_feature_extractor,
    (ML, "Binarizer"): binarizer,
    (ONNX, "TfIdfVectorizer"): tf_idf_vectorizer,
    (ML, "Scaler"): scaler,
}
