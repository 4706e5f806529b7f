"""Bad input: one clear line, exit 1, and nothing left behind."""

import json
import os
import shutil
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, mpirun


def model_of(nodes, inputs, outputs, initializers=(), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    more.setdefault("opset_imports", [helper.make_opsetid("", 18)])
    return helper.make_model(graph, ir_version=9, **more)


def floats(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def small_model(weight_shape=(8, 8)):
    weight = numpy_helper.from_array(np.ones(weight_shape, np.float32), "w")
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        [floats("x", 4, 8)],
        [floats("y", 4, weight_shape[1])],
        [weight],
    )


class BadInputTest(TemporaryFolderTest):
    def assert_refused(self, done, *parts):
        """One line of error that has every part."""
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def refuse_model(self, model, *parts, options=("--ngpus", 2)):
        """Partitioning fails with the parts in its message, and leaves no file."""
        file = self.tmp / "model.onnx"
        if isinstance(model, onnx.ModelProto):
            onnx.save(model, file)
        elif model is not None:
            file.write_bytes(model)
        before = sorted(path.name for path in self.tmp.iterdir())
        done = autopar("partition", file, *options, "--out", self.tmp / "out", expect=1)
        self.assert_refused(done, *parts)
        self.assertEqual(sorted(path.name for path in self.tmp.iterdir()), before)


class BadModelTest(BadInputTest):
    def test_missing_file(self):
        self.refuse_model(None, "model.onnx")

    def test_not_an_onnx_file(self):
        self.refuse_model(b"not a model at all" * 100, "model.onnx", "ONNX")

    def test_empty_file(self):
        self.refuse_model(b"", "model.onnx")

    def test_truncated(self):
        self.refuse_model(small_model((8, 512)).SerializeToString()[:-2000], "model.onnx")

    def external(self, location, size=256):
        model = small_model()
        onnx.save(
            model, self.tmp / "model.onnx", save_as_external_data=True, location="w.data",
            size_threshold=0,
        )
        (self.tmp / "w.data").write_bytes(bytes(size))
        loaded = onnx.load(self.tmp / "model.onnx", load_external_data=False)
        for entry in loaded.graph.initializer[0].external_data:
            if entry.key == "location":
                entry.value = location
        return loaded.SerializeToString()

    def test_external_data_missing(self):
        self.refuse_model(self.external("gone.data"), "gone.data", "w")

    def test_external_data_short(self):
        self.refuse_model(self.external("w.data", size=100), "w.data", "w")

    def test_external_data_outside_the_folder(self):
        outside = self.external("../w.data")
        self.refuse_model(outside, "../w.data")
        self.refuse_model(outside.replace(b"../w.data", b"/etc/host"), "/etc/host")

    def test_external_data_through_a_link_out_of_the_folder(self):
        model = self.external("link.data")
        os.symlink("/etc/passwd", self.tmp / "link.data")
        self.refuse_model(model, "link.data")

    def test_cycle(self):
        nodes = [
            helper.make_node("Add", ["x", "b"], ["a"], "first"),
            helper.make_node("Relu", ["a"], ["b"], "second"),
        ]
        self.refuse_model(
            model_of(nodes, [floats("x", 4)], [floats("b", 4)]), "cycle", "first"
        )

    def test_missing_input(self):
        nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], "sum")]
        self.refuse_model(model_of(nodes, [floats("x", 4)], [floats("y", 4)]), "nowhere", "sum")

    def test_unknown_operator(self):
        nodes = [helper.make_node("Frobnicate", ["x"], ["y"], "odd", domain="com.example")]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 3)]
        model = model_of(nodes, [floats("x", 4)], [floats("y", 4)], opset_imports=opsets)
        self.refuse_model(model, "Frobnicate", "com.example", "3", "odd")

    def test_opset_too_new(self):
        model = small_model()
        model.opset_import[0].version = 999
        self.refuse_model(model, "999")

    def test_full_disk(self):
        """A file size limit stops the writing as a full disk does."""
        file = self.tmp / "model.onnx"
        onnx.save(small_model((8, 1 << 16)), file)
        command = f'ulimit -f 64; trap "" XFSZ; exec "{AUTOPAR}" partition "{file}" --ngpus 2 --out "{self.tmp}/out"'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_refused(done, "rank0")
        self.assertEqual([path.name for path in self.tmp.iterdir()], ["model.onnx"])


class BadOptionTest(BadInputTest):
    def symbolic(self):
        weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
        return model_of(
            [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
            [floats("x", "batch", 8)],
            [floats("y", "batch", 8)],
            [weight],
        )

    def test_symbolic_dimension_unbound(self):
        self.refuse_model(self.symbolic(), "batch", "x", "--shape")

    def test_symbolic_dimension_bound_to_nonsense(self):
        for shape in ("x=ax8", "x=0x8", "x=-1x8", "x=4x9", "x=4", "nothing=4x8", "x", "x="):
            with self.subTest(shape):
                self.refuse_model(
                    self.symbolic(), "--shape", options=("--ngpus", 2, "--shape", shape)
                )

    def test_no_gpus(self):
        self.refuse_model(small_model(), "--ngpus 0", options=("--ngpus", 0))

    def test_mesh_of_another_product(self):
        for mesh in ("2x3", "4x", "0x4", "axb"):
            with self.subTest(mesh):
                self.refuse_model(
                    small_model(), "mesh", mesh, options=("--ngpus", 4, "--mesh", mesh)
                )

    def test_memory_limit_that_nothing_fits_tells_the_smallest_that_does(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model((8, 512)), file)
        done = autopar(
            "partition", file, "--ngpus", 2, "--memory", "100B", "--out", self.tmp / "out", expect=1
        )
        self.assert_refused(done, "100")
        smallest = int(done.stderr.split("smallest")[1].split("(")[1].split()[0])
        autopar(
            "partition", file, "--ngpus", 2, "--memory", f"{smallest}B", "--out", self.tmp / "out"
        )
        autopar(
            "partition", file, "--ngpus", 2, "--memory", f"{smallest - 1}B", "--out",
            self.tmp / "out2", expect=1,
        )

    def test_memory_that_is_no_size(self):
        self.refuse_model(small_model(), "--memory", options=("--ngpus", 2, "--memory", "lots"))

    def test_unknown_device(self):
        self.refuse_model(small_model(), "abacus", "h200", options=("--ngpus", 2, "--device", "abacus"))

    def strategy(self, text):
        file = self.tmp / "strategy.json"
        file.write_text(text)
        return ("--ngpus", 2, "--strategy", file)

    def test_strategy_that_names_no_node(self):
        options = self.strategy('{"operators": [{"name": "nobody", "outputs": ["RR"]}]}')
        self.refuse_model(small_model(), "nobody", options=options)

    def test_strategy_with_an_impossible_spec(self):
        for spec in ("RRR", "S0S0", "S7R", "XR"):
            with self.subTest(spec):
                options = self.strategy(
                    json.dumps({"operators": [{"name": "product", "outputs": [spec]}]})
                )
                self.refuse_model(small_model(), spec, options=options)

    def test_strategy_file_that_is_no_json(self):
        self.refuse_model(small_model(), "strategy.json", options=self.strategy("{"))

    def test_existing_out_is_kept_without_force(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model(), file)
        out = self.tmp / "out"
        autopar("partition", file, "--ngpus", 2, "--out", out)
        stamp = (out / "meta-info.json").stat().st_mtime_ns
        done = autopar("partition", file, "--ngpus", 4, "--out", out, expect=1)
        self.assert_refused(done, "out", "--force")
        self.assertEqual((out / "meta-info.json").stat().st_mtime_ns, stamp)
        autopar("partition", file, "--ngpus", 4, "--out", out, "--force")
        self.assertEqual(len(json.loads((out / "meta-info.json").read_text())["ranks"]), 4)

    def test_folder_that_is_no_bundle_is_never_replaced(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model(), file)
        (self.tmp / "out").mkdir()
        (self.tmp / "out" / "thesis.txt").write_text("years of work")
        done = autopar("partition", file, "--ngpus", 2, "--out", self.tmp / "out", "--force", expect=1)
        self.assert_refused(done, "out")
        self.assertTrue((self.tmp / "out" / "thesis.txt").exists())


class BadBundleTest(BadInputTest):
    def setUp(self):
        super().setUp()
        self.model = Model("gpt2-dynamo")
        self.bundle = self.tmp / "bundle"
        self.meta = self.model.partition(self.bundle, 2)

    def refuse_run(self, *parts, options=(), start=autopar):
        done = start("run", "--dir", self.bundle, *(options or self.model.input_options()), expect=1)
        self.assert_refused(done, *parts)

    def test_missing_file(self):
        (self.bundle / "rank1.data").unlink()
        self.refuse_run("rank1.data")

    def test_changed_file(self):
        data = bytearray((self.bundle / "rank1.data").read_bytes())
        data[len(data) // 2] ^= 1
        (self.bundle / "rank1.data").write_bytes(data)
        self.refuse_run("rank1.data")

    def test_shortened_file(self):
        data = (self.bundle / "rank0.onnx").read_bytes()
        (self.bundle / "rank0.onnx").write_bytes(data[:-1])
        self.refuse_run("rank0.onnx")

    def test_foreign_file(self):
        shutil.copy(self.bundle / "rank1.onnx", self.bundle / "rank2.onnx")
        self.refuse_run("rank2.onnx")

    def test_missing_or_broken_meta_info(self):
        (self.bundle / "meta-info.json").write_text("{}")
        self.refuse_run("meta-info.json")
        (self.bundle / "meta-info.json").unlink()
        self.refuse_run("meta-info.json")

    def test_rank_beyond_the_world(self):
        self.refuse_run("--rank 2", options=["--rank", 2, *self.model.input_options()])

    def test_world_of_the_wrong_size(self):
        done = mpirun(3, "run", "--dir", self.bundle, *self.model.input_options(), expect=1)
        self.assertIn("3", done.stderr)
        self.assertIn("2", done.stderr)

    def test_missing_input(self):
        self.refuse_run("input_ids", options=["--threads", 1])

    def test_input_of_the_wrong_name(self):
        file = next(iter(self.model.input_files.values()))
        self.refuse_run("tokens", "input_ids", options=["--input", f"tokens={file}"])

    def test_input_of_the_wrong_type(self):
        np.save(self.tmp / "x.npy", self.model.inputs["input_ids"].astype(np.float32))
        self.refuse_run("input_ids", "float32", options=["--input", f"input_ids={self.tmp}/x.npy"])

    def test_input_of_the_wrong_shape(self):
        np.save(self.tmp / "x.npy", self.model.inputs["input_ids"][:, :-1])
        self.refuse_run("input_ids", "1x15", options=["--input", f"input_ids={self.tmp}/x.npy"])

    def test_input_file_that_is_no_tensor(self):
        (self.tmp / "x.npy").write_bytes(b"hello")
        self.refuse_run("x.npy", options=["--input", f"input_ids={self.tmp}/x.npy"])


class NanIsDataTest(TemporaryFolderTest):
    def test_nan_passes(self):
        onnx.save(small_model(), self.tmp / "model.onnx")
        autopar("partition", self.tmp / "model.onnx", "--ngpus", 2, "--out", self.tmp / "bundle")
        x = np.zeros((4, 8), np.float32)
        x[1, 2] = np.nan
        np.save(self.tmp / "x.npy", x)
        autopar(
            "run", "--dir", self.tmp / "bundle", "--input", f"x={self.tmp}/x.npy",
            "--output-dir", self.tmp / "y",
        )
        y = np.load(self.tmp / "y" / "y.npy")
        self.assertTrue(np.isnan(y[1]).all())
        self.assertTrue((y[[0, 2, 3]] == 0).all())
        autopar("verify", self.tmp / "model.onnx", self.tmp / "bundle", "--input", f"x={self.tmp}/x.npy")
