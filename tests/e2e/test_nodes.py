"""Sums over machines with slow links between them: reduced within each, then between them, and gathered
within. Outputs, bytes and the simulation are what they must be."""

import json
import math

import onnx
from support import TOLERANCE, Model, TemporaryFolderTest, autopar

PRODUCT = "node_addmm_3"  # of GPT-2's first layer, which leaves the sum over its hidden size
LINK = {"latency_seconds": 1e-7, "bytes_per_second": 1e10}


def device_file(path, gpus_per_node, between):
    device = {
        "name": "nodes",
        "source": "made up",
        "flops_per_second": {"float32": 1e11},
        "memory_bytes_per_second": 1e10,
        "launch_seconds": 1e-6,
        "memory_bytes": 8e9,
        "gpus_per_node": gpus_per_node,
        "links": [LINK, {**LINK, "bytes_per_second": between}],
        "runs_on": "cpu",
    }
    path.write_text(json.dumps(device))
    return path


def chain_behind(graph, name):
    """The collectives that a shard's operator is followed by, each reading the one before, with axes."""
    value = next(node for node in graph.node if node.name == name).output[0]
    chain = []
    while True:
        readers = [node for node in graph.node if value in node.input]
        if len(readers) != 1 or readers[0].domain != "autopar":
            return chain
        axes = next(list(a.ints) for a in readers[0].attribute if a.name == "mesh_axes")
        chain.append((readers[0].op_type, axes))
        value = readers[0].output[0]


class NodesTest(TemporaryFolderTest):
    def partition(self, model, mesh, device):
        axes = "".join(map(str, range(mesh.count("x") + 1)))
        pins = self.tmp / "pins.json"
        pin = {"name": PRODUCT, "inputs": [f"RS{axes}", f"S{axes}R", "R"], "outputs": ["RR"]}
        pins.write_text(json.dumps({"operators": [{**pin, "reductions": ["all-reduce"]}]}))
        bundle = self.tmp / f"bundle{mesh}"
        options = ("--mesh", mesh, "--strategy", pins, "--device", device, "--search", "recursive")
        ranks = math.prod(map(int, mesh.split("x")))
        return bundle, options, model.partition(bundle, ranks, *options, "--force")

    def test_a_sum_over_nodes_crosses_the_slow_link_once_a_node(self):
        model = Model("gpt2-dynamo")
        for mesh, gpus_per_node, within in (("2x2", 2, 1), ("2x3", 3, 1), ("2x2x2", 2, 2)):
            with self.subTest(mesh=mesh):
                ranks = math.prod(map(int, mesh.split("x")))
                slow = device_file(self.tmp / "slow.json", gpus_per_node, between=1e6)
                bundle, options, meta = self.partition(model, mesh, slow)
                shard = onnx.load(bundle / "rank0.onnx", load_external_data=False)
                chain = chain_behind(shard.graph, PRODUCT)
                self.assertEqual(chain[0], ("ReduceScatter", [within]))
                self.assertEqual(chain[-1], ("AllGather", [within]))
                crossing = [(op_type, axes) for op_type, axes in chain if axes != [within]]
                self.assertEqual([op_type for op_type, _ in crossing].count("AllReduce"), 1)
                self.assertEqual({axis for _, axes in crossing for axis in axes},
                                 set(range(mesh.count("x") + 1)) - {within})

                out = self.tmp / f"out{mesh}"
                done = autopar("run", "--dir", bundle, *model.input_options(), "--output-dir", out, "--json")
                self.assertLessEqual(model.error_of(out), TOLERANCE)
                self.assertEqual(json.loads(done.stdout)["collectives"], meta["profiles"][0]["collectives"])
                autopar("verify", model.file, bundle, *model.input_options())

                trace = self.tmp / "trace.json"
                autopar("plan", model.file, *model.shape_options(), "--ngpus", ranks, *options,
                        "--simulate", trace)  # fmt: skip
                events = json.loads(trace.read_text())["traceEvents"]
                end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") * 1e-6
                self.assertAlmostEqual(end / meta["plan"]["cost_seconds"], 1, delta=1e-3)

    def test_where_links_are_alike_it_is_one_collective(self):
        alike = device_file(self.tmp / "alike.json", 2, between=LINK["bytes_per_second"])
        bundle, _, _ = self.partition(Model("gpt2-dynamo"), "2x2", alike)
        shard = onnx.load(bundle / "rank0.onnx", load_external_data=False)
        self.assertEqual(chain_behind(shard.graph, PRODUCT), [("AllReduce", [0, 1])])
