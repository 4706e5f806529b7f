"""The search is no worse than the Megatron plan, priced by the same cost model."""

import json
import re

import onnx

from support import MODELS, Model, TemporaryFolderTest, autopar

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


class ExpertPlanTest(TemporaryFolderTest):
    def plan(self, model, *more):
        done = autopar(
            "plan", model.file, *model.shape_options(), "--ngpus", 4, "--memory", "fair", "--json",
            *more,
        )
        return json.loads(done.stdout)

    def test_costs_no_more_than_megatron(self):
        names = sorted(
            path.name for path in MODELS.iterdir() if re.match("gpt2|bert|llama", path.name)
        )
        self.assertEqual(len(names), 6, names)
        for name in names:
            with self.subTest(name):
                model = Model(name)
                best = self.plan(model)
                pins, rows = megatron_pins(model.file, best)
                self.assertGreaterEqual(rows, 4, "two layers have two row-parallel projections each")
                strategy = self.tmp / "megatron.json"
                strategy.write_text(json.dumps({"operators": pins}))
                megatron = self.plan(model, "--strategy", strategy)
                pinned = {entry["name"]: entry for entry in megatron["operators"]}
                reduced = sum(
                    pinned[pin["name"]]["reductions"] == ["all-reduce"] for pin in pins
                )
                self.assertEqual(reduced, rows, "the pinned plan is not Megatron's")
                self.assertLessEqual(
                    best["summary"]["cost_seconds"], megatron["summary"]["cost_seconds"] * (1 + 1e-9)
                )
