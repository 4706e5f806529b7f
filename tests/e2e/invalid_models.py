"""Small models that ONNX's own inference lets pass, or that it never sees, though they make no
sense: each with words that its error must have."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MOST_NESTED = 100  # messages within messages, which protobuf parses
MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"
OWN = "autopar.ops"
node = helper.make_node


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def ones(name, *shape, dtype=np.float32):
    return numpy_helper.from_array(np.ones(shape, dtype), name)


X, Y = floats("x", 4), floats("y", 4)


def model(nodes, inputs=(X,), outputs=(Y,), constants=(), opset=18, functions=()):
    graph = helper.make_graph(nodes, "tested", list(inputs), list(outputs), list(constants))
    opsets = [helper.make_opsetid(domain, version) for domain, version in
              {"": opset, MICROSOFT: 1, ML: 5, OWN: 1, "local": 1}.items()]  # fmt: skip
    return helper.make_model(graph, ir_version=9, opset_imports=opsets, functions=list(functions))


def relu(name="n"):
    return node("Relu", ["x"], ["y"], name)


def of_sizes():
    """Operands of sizes that do not fit together."""

    def one(op_type, shape, *operands, inputs=("x",), opset=18, domain=None, **attributes):
        names = [*inputs, *(operand.name for operand in operands)]
        made = node(op_type, names, ["y"], "n", domain=domain, **attributes)
        return model([made], [floats("x", *shape)], [floats("y", *shape)], operands, opset)

    scale = ones("scale", 5)
    image = (4, 8, 2)
    yield "Gemm's bias", one("Gemm", (4, 8), ones("w", 8, 8), scale), ["input 'C' is 5"]
    yield "Gemm's bias of three dimensions", one("Gemm", (4, 8), ones("w", 8, 8), ones("c", 1, 4, 8)), ["'C' is 1x4x8"]
    yield "LayerNormalization", one("LayerNormalization", (4, 8), scale), ["input 'Scale' is 5"]
    yield "LayerNormalization's axis", one("LayerNormalization", (4, 8), scale, axis=7), ["input 'X' is 4x8", "axis"]
    yield "RMSNormalization", one("RMSNormalization", (4, 8), scale, opset=23), ["input 'scale' is 5"]
    yield (
        "BatchNormalization",
        one("BatchNormalization", image, scale, ones("b", 8), ones("m", 8), ones("v", 8)),
        ["'scale' is 5"],
    )
    yield "InstanceNormalization", one("InstanceNormalization", image, scale, ones("b", 8)), ["'scale' is 5"]
    yield "GroupNormalization", one("GroupNormalization", image, scale, ones("b", 5), num_groups=3), ["'n/"]
    yield (
        "Attention",
        one("Attention", (1, 4, 8), inputs=("x", "x", "x"), opset=23, q_num_heads=3, kv_num_heads=3),
        ["input 'Q' is 1x4x8"],
    )
    yield (
        "Attention of Microsoft",
        one("Attention", (1, 4, 8), ones("w", 8, 24), ones("b", 24), domain=MICROSOFT, num_heads=3),
        ["1x4x8 and weights 8x24 of 3 heads"],
    )
    yield (
        "MultiHeadAttention",
        one("MultiHeadAttention", (1, 4, 8), inputs=("x", "x", "x"), domain=MICROSOFT, num_heads=3),
        ["input 'Q' is 1x4x8"],
    )
    yield (
        "SkipLayerNormalization",
        one("SkipLayerNormalization", (1, 4, 8), scale, inputs=("x", "x"), domain=MICROSOFT),
        ["'Scale' is 5"],
    )
    positions = ones("p", 1, dtype=np.int64)
    tables = [ones("c", 2, 3), ones("s", 2, 3)]
    yield (
        "RotaryEmbedding",
        one("RotaryEmbedding", (1, 4, 8), positions, *tables, domain=MICROSOFT),
        ["no whole heads of 6"],
    )
    for what, told, shape, attributes in (
        ("depth", "input 'A' is 4x8", (8, 1, 8), {"K": 9}),
        ("bits", "bits 7", (8, 1, 8), {"bits": 7}),
        ("bytes", "input 'B' is 3x1x8", (3, 1, 8), {}),
        ("blocks", "8 columns have 9 each", (8, 1, 8), {"block_size": 17}),
        ("blocks of nothing", "input 'B'", (8, 1, 8), {"block_size": 0}),
    ):
        operands = ones("q", *shape, dtype=np.uint8), ones("s", 8)
        attributes = {"K": 8, "N": 8, "bits": 4, "block_size": 16} | attributes
        yield f"MatMulNBits' {what}", one("MatMulNBits", (4, 8), *operands, domain=MICROSOFT, **attributes), [told]


    weights = ones("q", 2, 8, 8, dtype=np.uint8)
    for what, scales, zeros in (("scales", (2, 8, 2), (2, 8, 1)), ("zero points", (2, 8, 1), (2, 8, 3))):
        operands = ones("i", 4, dtype=np.int64), weights, ones("s", *scales), ones("z", *zeros, dtype=np.uint8)
        made = one("ExpertMatMulNBits", (4, 16), *operands, domain=OWN, bits=4)
        yield f"ExpertMatMulNBits' {what}", made, ["not of 1 block(s) of 16 numbers"]


def of_words():
    """Attributes that are none of the words or numbers that ONNX has for them."""

    def one(op_type, shape, *operands, opset=20, **attributes):
        names = ["x", *(operand.name for operand in operands)]
        made = node(op_type, names, ["y"], "n", **attributes)
        return model([made], [floats("x", *shape)], [floats("y", *shape)], operands, opset)

    told = ["'n'", "must be one of"]
    yield "DepthToSpace", one("DepthToSpace", (1, 4, 2, 2), blocksize=2, mode="CDR"), told
    yield "Conv", one("Conv", (1, 1, 4, 4), ones("w", 1, 1, 3, 3), auto_pad="SAME"), told
    yield "MaxPool", one("MaxPool", (1, 1, 4, 4), kernel_shape=[3, 3], auto_pad="same_upper"), told
    yield "Resize", one("Resize", (1, 1, 4, 4), ones("r", 0), ones("s", 4), mode="square"), told
    indices = ones("i", 1, 1, dtype=np.int64)
    yield "ScatterElements", one("ScatterElements", (4, 4), indices, ones("u", 1, 1), reduction="plus"), told
    gates = [ones("w", 1, 6, 3), ones("r", 1, 6, 2)]
    yield "GRU", one("GRU", (1, 1, 3), *gates, hidden_size=2, direction="back\nwards"), told
    yield "GRU's clip", one("GRU", (1, 1, 3), *gates, hidden_size=2, clip=-1.0), ["'clip' is -1"]
    sizes = {"q_num_heads": 3, "kv_num_heads": 2}
    heads = model([node("Attention", ["x", "k", "k"], ["y"], "n", **sizes)],
                  [floats("x", 1, 4, 6)], [floats("y", 1, 4, 6)], [ones("k", 1, 4, 4)], 23)  # fmt: skip
    yield "heads", heads, ["'q_num_heads' is 3", "'kv_num_heads', 2"]


def forest(small_trees, levels):
    """A full tree of that many levels, and many of one leaf each."""
    nodes = 2**levels - 1
    children = np.arange(nodes) * 2 + 1
    is_leaf = (children + 1 >= nodes).astype(np.int64).tolist()
    attributes = {
        "nodes_splits": ones("s", nodes), "nodes_modes": ones("m", nodes, dtype=np.uint8),
        "nodes_featureids": [0] * nodes,
        "nodes_truenodeids": (children % nodes).tolist(), "nodes_trueleafs": is_leaf,
        "nodes_falsenodeids": ((children + 1) % nodes).tolist(), "nodes_falseleafs": is_leaf,
        "leaf_targetids": [0] * nodes, "leaf_weights": ones("w", nodes),
        "tree_roots": [0] + [nodes - 1] * small_trees,
    }  # fmt: skip
    return model([node("TreeEnsemble", ["x"], ["y"], "n", domain=ML, **attributes)],
                 [floats("x", 4, 2)], [floats("y", 4, 1)])  # fmt: skip


def of_tables():
    """What takes far more memory as tables than in the file."""
    yield "trees beside a large one", forest(10_000, 13), ["'n'", "a constant of", "--limits constants="]


def of_names():
    """Values that are made twice, and those without a name."""
    again = "the value '{}' is made more than once"
    nameless = floats("", 4)
    yield "an output twice", model([relu()], outputs=[Y, Y]), ["the graph's output 'y' is listed twice"]
    yield "two nodes' output", model([relu(), node("Abs", ["x"], ["y"], "n")]), [again.format("y")]
    yield "one node's outputs", model([node("Split", ["x"], ["y", "y"], "n", num_outputs=2)]), [again.format("y")]
    yield "an input twice", model([relu()], [X, X]), ["the graph's input 'x' is listed twice"]
    yield "a node's output and an input", model([node("Relu", ["x"], ["x"], "n")], outputs=[X]), [again.format("x")]
    yield "a constant twice", model([relu()], constants=[ones("w", 4)] * 2), [again.format("w")]
    yield "an input", model([relu()], [X, nameless]), ["an input of the graph has no name"]
    yield "an output", model([relu()], outputs=[Y, nameless]), ["an output of the graph has no name"]
    yield "a constant", model([relu()], constants=[ones("", 4)]), ["an initializer of the graph has no name"]
    yield "a node's output", model([node("Abs", ["x"], [""], "n"), relu("m")]), ["(Abs)", "output 0"]
    yield "a node's input", model([node("Add", ["x", ""], ["y"], "n")]), ["(Add)", "input 1"]
    yield "no inputs", model([node("Add", [], ["y"], "n")]), ["(Add)", "input size 0"]
    yield "no outputs", model([node("Abs", ["x"], [], "n"), relu("m")]), ["(Abs)", "output size 0"]
    yield "outputs too many", model([node("Relu", ["x"], ["y", "z"], "n")]), ["(Relu)", "output size 2"]


def of_ranks():
    """Tensors of 3,000 dimensions."""
    count = 3000
    told = "3000 dimensions"
    long, many = floats("x", *[1] * count), floats("y", *[1] * count)
    yield "an input", model([relu()], [long], [many]), [told]
    for op_type in ("Reshape", "Expand", "Tile", "Unsqueeze"):
        extents = ones("s", count, dtype=np.int64)
        yield op_type, model([node(op_type, ["x", "s"], ["y"], "n")], [floats("x", 1)], [many], [extents]), [told]
    shaped = node("ConstantOfShape", ["s"], ["y"], "n")
    yield "ConstantOfShape", model([shaped], [X], [many], [ones("s", count, dtype=np.int64)]), [told]


def field(number, payload):
    """A message or text within a message, as protobuf writes it: its library refuses deep ones."""
    head = bytearray()
    for count in (number << 3 | 2, len(payload)):
        while count > 127:
            head.append(count & 127 | 128)
            count >>= 7
        head.append(count)
    return bytes(head) + payload


def nested_graphs(depth):
    """Ifs within the then-branches of Ifs."""
    output = field(12, floats("y", 4).SerializeToString())
    leaf = field(1, node("Relu", ["x"], ["y"], "leaf").SerializeToString()) + output
    graph = leaf
    for level in range(depth):
        branches = [field(5, field(1, name) + field(6, body) + b"\xa0\x01\x05") for name, body in
                    ((b"then_branch", graph), (b"else_branch", leaf))]  # fmt: skip
        name = field(3, f"level {depth - 1 - level}".encode())
        graph = field(1, field(1, b"c") + field(2, b"y") + name + field(4, b"If") + b"".join(branches)) + output
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph += field(2, b"tested") + b"".join(field(11, info.SerializeToString()) for info in (condition, X))
    return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x12")


def nested_sequences(depth):
    """An input that is a sequence of sequences of ... tensors."""
    kind = field(1, b"\x08\x01")
    for _ in range(depth):
        kind = field(4, field(1, kind))
    made = model([relu()]).graph.SerializeToString() + field(11, field(1, b"s") + field(2, kind))
    return b"\x08\x09" + field(7, made) + field(8, b"\x10\x12")


def functions(count, calls_itself=False):
    """Functions that call each other in a row."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    made = []
    for i in range(count):
        is_last = i == count - 1 and not calls_itself
        following = f"F{(i + 1) % count}"
        body = node("Relu", ["a"], ["b"]) if is_last else node(following, ["a"], ["b"], domain="local")
        made.append(helper.make_function("local", f"F{i}", ["a"], ["b"], [body], opsets))
    return model([node("F0", ["x"], ["y"], "n", domain="local")], functions=made)


def of_depths():
    """What is nested beyond protobuf's limit, or calls itself."""
    for depth in (33, MOST_NESTED + 1, 3000):
        yield f"{depth} graphs", nested_graphs(depth), ["node 'level ", "(If) holds graphs that are nested too deep"]
    for depth in (MOST_NESTED, 50_000):
        yield f"{depth} sequences", nested_sequences(depth), ["nested more than 100 deep"]
    yield "an input that is a sequence", nested_sequences(1), ["input 's' is no tensor"]
    yield "functions", functions(5000), ["calls functions more than 64 deep"]
    yield "a function that calls itself", functions(1, calls_itself=True), ["'F0' calls itself"]


def all_models():
    """(name, bytes, words) of each."""
    for made in (of_sizes, of_words, of_tables, of_names, of_ranks, of_depths):
        for name, proto, words in made():
            contents = proto if isinstance(proto, bytes) else proto.SerializeToString()
            yield f"{made.__name__}: {name}", contents, words


def sound_models():
    """Those that look alike and have a plan."""
    yield "15 graphs within graphs", nested_graphs(15)
    yield "50 functions", functions(50).SerializeToString()
    text = model([relu()]).SerializeToString().replace(b"tested", b"\xff\xfe\xfdted")
    yield "a graph's name that is no UTF-8", text
