"""The Megatron plan of a transformer, as pins for --strategy."""

import re

import onnx

# Megatron-LM splits the first projection of a block by columns and the second by rows, with one
# all-reduce after it: two a layer. Which is which is told by names in the model: the node's
# (from the TorchScript-based exporter), the weight's or the scope's (from the torch.export-based one).
BY_COLUMNS = re.compile(
    r"c_attn|c_fc|fc1|query|key|value|[qkv]_proj|gate_proj|up_proj|intermediate", re.IGNORECASE
)
BY_ROWS = re.compile(r"c_proj|fc2|o_proj|down_proj|output[./]dense", re.IGNORECASE)


def projections(model_file):
    """The names of the nodes that are column- and row-parallel in the Megatron plan."""
    graph = onnx.load(model_file).graph
    columns, rows = [], []
    for node in graph.node:
        if node.op_type not in ("MatMul", "Gemm"):
            continue
        scopes = " ".join(p.value for p in node.metadata_props if "scope" in p.key)
        label = f"{node.name} {node.input[1]} {scopes}"
        if BY_ROWS.search(label):
            rows.append(node.name)
        elif BY_COLUMNS.search(label):
            columns.append(node.name)
    return columns, rows


def rank_of(spec):
    return len(re.findall(r"[RS]\d*", spec))


def is_part_of(name, nodes):
    """A hoisted projection bears its node's name and, after a slash, its part's."""
    return any(name == node or name.startswith(node + "/") for node in nodes)


def megatron_pins(model_file, plan, axes="0", batch_axes=""):
    """The pins, and the number of row-parallel projections. The batch may be split over further
    axes."""
    columns, rows = projections(model_file)
    batch = f"S{batch_axes}" if batch_axes else "R"
    operators = []
    for entry in plan["operators"]:
        name, dims = entry["name"], rank_of(entry["outputs"][0])
        if is_part_of(name, columns):
            operators.append({"name": name, "outputs": [batch + "R" * (dims - 2) + f"S{axes}"]})
        elif is_part_of(name, rows):
            spec = batch + "R" * (dims - 1)
            operators.append({"name": name, "outputs": [spec], "reductions": ["all-reduce"]})
    return operators, len(rows)
