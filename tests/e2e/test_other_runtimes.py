"""Shards with other runtimes' collectives: each node by the rules of the runtime, and outputs against
the whole model in ONNX Runtime, computed by autopar after a way back to its own collectives and, with
the nodes as they are, by ONNX's reference implementation."""

import json
import os
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import onnx_runtime_shards as shards
import runtime_rules as rules
from ranks import free_port
from support import AUTOPAR, Model, TemporaryFolderTest, autopar, relative_error

RUN_SHARDS = Path(AUTOPAR).parent / "run_shards"
FLAVOURS = ("onnxruntime", "tensorrt")
MESHES = (("2",), ("3",), ("4",), ("4", "--mesh", "2x2"))
TOLERANCE = 1e-4


def part(port, rank):
    return tuple(slice(begin, end) for begin, end in port["ranges"][rank])


def inputs_of(meta, rank, inputs):
    return {port["name"]: inputs[port["name"]][part(port, rank)]
            for port in meta["profiles"][0]["inputs"]}  # fmt: skip


def whole_outputs(meta, by_rank):
    wholes = {}
    for rank, outputs in enumerate(by_rank):
        for port, output in zip(meta["profiles"][0]["outputs"], outputs, strict=True):
            whole = wholes.setdefault(port["name"], np.empty(port["shape"], output.dtype))
            whole[part(port, rank)] = output
    return wholes


def models_in(bundle, ranks):
    return [onnx.load(bundle / f"rank{rank}.onnx") for rank in range(ranks)]


def error_of(model, outputs):
    return max(relative_error(expected, outputs[name]) for name, expected in model.outputs.items())


class RuntimesTest(TemporaryFolderTest):
    def partition(self, model, flavour, *options, name="bundle"):
        bundle = self.tmp / name
        meta = model.partition(bundle, options[0], *options[1:], "--shards", flavour)
        self.assertEqual(meta["shards"], flavour)
        self.assertEqual(meta["structure"], [])
        return bundle, meta

    def run_by_autopar(self, bundle, meta, inputs):
        """With the collectives turned into autopar's."""
        ranks = range(len(meta["ranks"]))
        for rank in ranks:
            for name, value in inputs_of(meta, rank, inputs).items():
                proto = numpy_helper.from_array(np.ascontiguousarray(value))
                (bundle / f"rank{rank}.{safe(name)}.pb").write_bytes(proto.SerializeToString())
        port = free_port()
        command = [str(RUN_SHARDS), str(bundle), "--ranks", str(len(ranks)), "--port", str(port)]
        processes = [
            subprocess.Popen([*command, "--rank", str(rank)], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "AUTOPAR_SECRET": "s" * 32})
            for rank in ranks
        ]  # fmt: skip
        for process in processes:
            _, told = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, told)
        ports = meta["profiles"][0]["outputs"]
        return whole_outputs(meta, [
            [np.load(bundle / "first" / f"rank{rank}.{safe(port['name'])}.npy") for port in ports]
            for rank in ranks
        ])  # fmt: skip

    def check_shards(self, name, flavour, *options):
        model = Model(name)
        label = "-".join([name, flavour, *options]).replace("--", "")
        bundle, meta = self.partition(model, flavour, *options, name=label)
        models = models_in(bundle, int(options[0]))
        for shard in models:
            rules.check_model(shard)
        used = rules.check_ranks(flavour, models)
        error = error_of(model, self.run_by_autopar(bundle, meta, model.inputs))
        self.assertLessEqual(error, TOLERANCE, label)
        return used

    def check_all(self, name):
        for flavour in FLAVOURS:
            for options in MESHES:
                with self.subTest(model=name, flavour=flavour, options=options):
                    used = self.check_shards(name, flavour, *options)
                    self.assertGreater(sum(used.values()), 0)


class Exchange:
    """y = -relu(x), of which the first is split along one dimension and the second along another."""

    EXTENTS = (96, 120, 144)

    def __init__(self, folder, split, other):
        self.file = folder / "model.onnx"
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.EXTENTS)
                 for name in ("x", "y")]  # fmt: skip
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["r"], name="relu"),
             helper.make_node("Neg", ["r"], ["y"], name="neg")], "two", infos[:1], infos[1:])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                                    ir_version=10), self.file)  # fmt: skip

        def spec(dim):
            return "".join("S0" if d == dim else "R" for d in range(3))

        pins = [{"name": "relu", "outputs": [spec(split)]}, {"name": "neg", "outputs": [spec(other)]}]
        (folder / "pins.json").write_text(json.dumps({"operators": pins}))
        x = np.random.default_rng(0).standard_normal(self.EXTENTS, np.float32)
        self.inputs, self.outputs = {"x": x}, {"y": -np.maximum(x, 0)}

    def partition(self, out, ngpus, *more):
        autopar("partition", self.file, "--ngpus", ngpus, "--out", out, *more)
        return json.loads((out / "meta-info.json").read_text())


def safe(name):
    return "".join(c if c.isalnum() or c in ".-_" else "_" for c in name)


class ZooTest(RuntimesTest):
    def test_mlp(self):
        self.check_all("mlp-dynamo")

    def test_bert(self):
        self.check_all("bert-dynamo")

    def test_gpt2(self):
        self.check_all("gpt2-torchscript")

    def test_llama(self):
        self.check_all("llama-dynamo")

    def test_vit(self):
        self.check_all("vit-dynamo")

    def test_convolutions(self):
        self.check_all("resnet50-dynamo")

    def test_exchanges(self):
        """No sample model has a tensor that is large enough for an all-to-all."""
        for ranks, split, whole in ((2, 0, 1), (3, 1, 0), (4, 1, 2), (4, 2, 0)):
            with self.subTest(ranks=ranks, split=split, whole=whole):
                folder = self.tmp / f"{ranks}-{split}-{whole}"
                folder.mkdir()
                model = Exchange(folder, split, whole)
                bundle, meta = self.partition(model, "onnxruntime", str(ranks), "--memory", "device",
                                              "--strategy", folder / "pins.json",
                                              name=folder / "bundle")  # fmt: skip
                models = models_in(bundle, ranks)
                self.assertEqual(rules.check_ranks("onnxruntime", models), {"AllToAll": 1})
                outputs = self.run_by_autopar(bundle, meta, model.inputs)
                np.testing.assert_array_equal(outputs["y"], model.outputs["y"])
                by_rank = rules.World(ranks).run(
                    models, [inputs_of(meta, rank, model.inputs) for rank in range(ranks)])
                np.testing.assert_array_equal(whole_outputs(meta, by_rank)["y"], model.outputs["y"])

    def test_nodes_as_they_are(self):
        """By ONNX's reference implementation, with collectives written from the runtimes' pages."""
        for name in ("mlp-dynamo", "bert-dynamo", "llama-dynamo"):
            for flavour in FLAVOURS:
                for options in (("2",), ("3",), ("4", "--mesh", "2x2")):
                    with self.subTest(model=name, flavour=flavour, options=options):
                        model = Model(name)
                        label = "-".join([name, flavour, *options])
                        bundle, meta = self.partition(model, flavour, *options, name=label)
                        ranks = int(options[0])
                        by_rank = rules.World(ranks).run(
                            models_in(bundle, ranks),
                            [inputs_of(meta, rank, model.inputs) for rank in range(ranks)],
                        )
                        error = error_of(model, whole_outputs(meta, by_rank))
                        self.assertLessEqual(error, TOLERANCE)

    def test_every_search_keeps_to_the_collectives(self):
        for search in ("propagation", "recursive"):
            for flavour in FLAVOURS:
                with self.subTest(search=search, flavour=flavour):
                    self.check_shards("bert-dynamo", flavour, "4", "--search", search)
                    self.check_shards("bert-dynamo", flavour, "4", "--mesh", "2x2", "--search", search)

    def test_files_are_complete_by_themselves(self):
        bundle, _ = self.partition(Model("mlp-dynamo"), "onnxruntime", "2")
        names = sorted(path.name for path in bundle.iterdir())
        self.assertEqual(names, ["meta-info.json", "plan.json", "rank0.data", "rank0.onnx",
                                 "rank1.data", "rank1.onnx"])  # fmt: skip
        alone = self.tmp / "alone"
        alone.mkdir()
        for name in ("rank1.onnx", "rank1.data"):
            (bundle / name).rename(alone / name)
        model = onnx.load(alone / "rank1.onnx")
        self.assertTrue(all(each.raw_data or each.dims for each in model.graph.initializer))
        stored = onnx.load(alone / "rank1.onnx", load_external_data=False)
        locations = {entry.value for each in stored.graph.initializer
                     for entry in each.external_data if entry.key == "location"}  # fmt: skip
        self.assertEqual(locations, {"rank1.data"})


def with_autopar_nodes(model, rank, ranks):
    """With nodes of autopar's library for ONNX Runtime in place of com.microsoft's, without their
    input that tells the order."""
    tensors = rules.tensors_of(model.graph)
    for node in rules.collectives_of(model, "onnxruntime"):
        told = rules.attributes_of(node)
        node.domain = "autopar"
        del node.attribute[:]
        attributes = {"mesh_axes": [0], "ranks": list(range(ranks)), "rank": rank}
        if node.op_type == "AllReduce":
            attributes["reduce"] = "sum"
        else:
            dim = attributes["dim"] = told["axis"]
            attributes["sizes"] = [tensors[node.input[0]][1][dim]] * ranks
        node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
    model.opset_import.add(domain="autopar", version=1)
    return model


@unittest.skipUnless(shards.IS_BUILT, "no header of ONNX Runtime was found for the build")
class OrderTest(RuntimesTest):
    """ONNX Runtime itself, whose package has no collectives: with autopar's, in an order that the
    graph alone tells."""

    def test_collectives_keep_their_order(self):
        model = Model("vit-dynamo")
        ranks = 4
        model.partition(self.tmp / "own", ranks)  # whose world the ranks meet in
        bundle, meta = self.partition(model, "onnxruntime", str(ranks), "--mesh", "2x2")
        sessions = []
        for rank, shard in enumerate(models_in(bundle, ranks)):
            options = shards.options_of(self.tmp / "own")
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = 4
            options.optimized_model_filepath = str(self.tmp / f"optimized{rank}.onnx")
            converted = with_autopar_nodes(shard, rank, ranks)
            sessions.append(onnxruntime.InferenceSession(converted.SerializeToString(), options))
            optimized = onnx.load(options.optimized_model_filepath)
            nodes = [node for node in optimized.graph.node if node.domain == "autopar"]
            self.assertGreater(len(nodes), 8)
            made = {output: n for n, node in enumerate(optimized.graph.node) for output in node.output}
            rules.check_order(optimized, sorted(nodes, key=lambda node: made[node.output[0]]))
        for _ in range(3):
            with ThreadPoolExecutor(ranks) as pool:
                by_rank = list(pool.map(
                    lambda rank: sessions[rank].run(None, inputs_of(meta, rank, model.inputs)),
                    range(ranks)))  # fmt: skip
            self.assertLessEqual(error_of(model, whole_outputs(meta, by_rank)), TOLERANCE)


def model_of(nodes, weight, x, y):
    graph = helper.make_graph(
        nodes, "one", [helper.make_tensor_value_info("x", *x)],
        [helper.make_tensor_value_info("y", *y)], [numpy_helper.from_array(weight, "w")])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def product(rows, columns):
    """y = x W."""
    weight = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    return model_of([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], weight,
                    (TensorProto.FLOAT, [8, rows]), (TensorProto.FLOAT, [8, columns]))  # fmt: skip


def lookup():
    """The largest of each row, whole, of a table of bytes, which no collective of other runtimes
    takes."""
    nodes = [helper.make_node("Gather", ["w", "x"], ["rows"], name="lookup"),
             helper.make_node("ArgMax", ["rows"], ["y"], axis=1, keepdims=0)]  # fmt: skip
    return model_of(nodes, np.ones((1000, 64), np.int8), (TensorProto.INT64, [8]),
                    (TensorProto.INT64, [8]))  # fmt: skip


class RefusalTest(RuntimesTest):
    def refusal(self, *arguments):
        done = autopar(*arguments, expect=1)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_autopar_runs_no_such_bundle(self):
        bundle, _ = self.partition(Model("mlp-dynamo"), "tensorrt", "2")
        for command in (["run", "--dir", bundle], ["serve", "--dir", bundle]):
            self.assertRegex(self.refusal(*command), "shards are for tensorrt.*--shards autopar")
        self.assertIn("planned for h200", autopar("inspect", bundle).stdout)

    def test_pipelines(self):
        model = Model("mlp-dynamo")
        for options, told in ((("--stages", "2"), "--stages 2"),
                              (("--microbatches", "2"), "--microbatches 2")):  # fmt: skip
            line = self.refusal("partition", model.file, *model.shape_options(), "--ngpus", "2",
                                "--out", self.tmp / "out", "--shards", "onnxruntime", *options)  # fmt: skip
            self.assertRegex(line, f"{told}: --shards onnxruntime has n")
        self.assertFalse((self.tmp / "out").exists())

    def pinned(self, *entries):
        file = self.tmp / "pins.json"
        file.write_text(json.dumps({"operators": list(entries)}))
        return ["--strategy", file]

    def test_a_pin_that_takes_another_collective(self):
        model = self.tmp / "model.onnx"
        onnx.save(product(256, 256), model)
        pins = self.pinned({"name": "product", "reductions": ["reduce-scatter"]})
        common = ["partition", model, "--ngpus", "2", "--memory", "device", *pins]
        line = self.refusal(*common, "--out", self.tmp / "a", "--shards", "onnxruntime")
        self.assertRegex(line, "operator 'product'.*--strategy.*--shards onnxruntime")
        autopar(*common, "--out", self.tmp / "b", "--shards", "tensorrt")
        used = rules.check_ranks("tensorrt", models_in(self.tmp / "b", 2))
        self.assertIn("reduce_scatter", used)

    def test_a_tensor_that_cannot_come_where_pins_want_it(self):
        model = self.tmp / "model.onnx"
        onnx.save(product(255, 256), model)  # no equal shares of 255
        pins = self.pinned({"name": "product", "inputs": ["RR", "RS0"]},
                           {"name": "w", "outputs": ["S0R"]})  # fmt: skip
        common = ["partition", model, "--ngpus", "2", "--memory", "device", *pins]
        for flavour in FLAVOURS:
            line = self.refusal(*common, "--out", self.tmp / "a", "--shards", flavour)
            self.assertRegex(line, f"{flavour} tensor 'w' cannot come to operator 'product'.*flavour")
        autopar(*common, "--out", self.tmp / "a")

    def test_a_weight_that_is_whole_on_every_rank(self):
        model = self.tmp / "model.onnx"
        onnx.save(lookup(), model)
        common = ["partition", model, "--ngpus", "2", "--out", self.tmp / "out"]
        for flavour in FLAVOURS:
            line = self.refusal(*common, "--shards", flavour)
            self.assertRegex(line, "fair share, .*--memory device; .*operator 'lookup' needs weight 'w' .64000 bytes. "
                                   "whole on every rank: give fewer ranks or another flavour")  # fmt: skip
            self.assertFalse((self.tmp / "out").exists())
        autopar(*common)


class RulesTest(RuntimesTest):
    """The rules tell what is wrong with a node."""

    def spoiled(self, flavour, change, options=("2",)):
        bundle, _ = self.partition(Model("bert-dynamo"), flavour, *options,
                                   name=f"{flavour}-{len(list(self.tmp.iterdir()))}")  # fmt: skip
        models = models_in(bundle, int(options[0]))
        rules.check_ranks(flavour, models)
        change(rules.collectives_of(models[1], flavour)[0])
        with self.assertRaises(rules.Broken):
            rules.check_ranks(flavour, models)

    def test_onnx_runtime(self):
        def other_group(node):
            node.attribute.append(helper.make_attribute("group_size", 7))

        def other_domain(node):
            node.domain = "autopar"

        for change in (other_group, other_domain):
            self.spoiled("onnxruntime", change)

    def test_order_in_onnx_runtime(self):
        bundle, _ = self.partition(Model("bert-dynamo"), "onnxruntime", "2")
        models = models_in(bundle, 2)
        for node in models[0].graph.node:
            if node.name.endswith("/append"):
                node.op_type = "Identity"
                del node.input[1:], node.attribute[:]
        with self.assertRaisesRegex(rules.Broken, "it needs"):
            rules.check_ranks("onnxruntime", models)

    def test_tensorrt(self):
        def set_attribute(name, value):
            def change(node):
                kept = [each for each in node.attribute if each.name != name]
                del node.attribute[:]
                node.attribute.extend(kept)
                node.attribute.append(helper.make_attribute(name, value))

            return change

        for name, value in (("root", 0), ("nb_rank", 3), ("reduce_op", "bitwise"), ("axis", 1),
                            ("group_size", 2), ("groups", [0, 1]),
                            ("collective_operation", "all_to_all")):  # fmt: skip
            with self.subTest(name):
                self.spoiled("tensorrt", set_attribute(name, value))
