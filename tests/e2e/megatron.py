"""The Megatron plan of a transformer, as pins for --strategy."""

import re

import onnx

# Megatron-LM splits the first projection of a block by columns and the second by rows, with one
# all-reduce after it: two a layer. Which is which is told by names in the model: the node's
# (from the TorchScript-based exporter), the weight's or the scope's (from the torch.export-based one).
BY_COLUMNS = re.compile(
    r"c_attn|c_fc|query|key|value|[qkv]_proj|gate_proj|up_proj|intermediate", re.IGNORECASE
)
BY_ROWS = re.compile(r"c_proj|o_proj|down_proj|output[./]dense", re.IGNORECASE)


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


def megatron_pins(model_file, plan):
    columns, rows = projections(model_file)
    operators = []
    for entry in plan["operators"]:
        # a hoisted projection bears its name and, after a slash, its part's
        name = entry["name"]
        whole = {name, name.rsplit("/", 1)[0]}
        dims = len(re.findall(r"[RS]\d*", entry["outputs"][0]))
        if whole & set(columns):
            operators.append({"name": name, "outputs": ["R" * (dims - 1) + "S0"]})
        elif whole & set(rows):
            operators.append({"name": name, "outputs": ["R" * dims], "reductions": ["all-reduce"]})
    return operators, len(rows)
