"""Bad input: one clear line, exit 1, and nothing left behind."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, mpirun, write_meta_info


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

    def test_folder(self):
        (self.tmp / "model.onnx").mkdir()
        self.refuse_model(None, "model.onnx", "directory")

    def test_pipe(self):
        os.mkfifo(self.tmp / "model.onnx")
        self.refuse_model(None, "model.onnx", "not a regular file")

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_unreadable(self):
        onnx.save(small_model(), self.tmp / "model.onnx")
        (self.tmp / "model.onnx").chmod(0)
        self.refuse_model(None, "model.onnx", "Permission denied")

    def test_name_that_would_break_the_line(self):
        nodes = [helper.make_node("Frobnicate", ["x"], ["y"], "odd\nerror: \x1b[31mnode")]
        self.refuse_model(
            model_of(nodes, [floats("x", 4)], [floats("y", 4)]), "odd error:  [31mnode"
        )

    def test_name_that_is_not_utf_8(self):
        model = model_of(
            [helper.make_node("Relu", ["x"], ["yyyy"])], [floats("x", 4)], [floats("yyyy", 4)]
        )
        self.refuse_model(model.SerializeToString().replace(b"yyyy", b"\xff\xfe\xfdy"), "UTF-8")

    def test_no_outputs(self):
        self.refuse_model(
            model_of([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], []), "no outputs"
        )

    def test_operands_that_do_not_fit(self):
        def model(shape, weight_shape, **attributes):
            return model_of(
                [helper.make_node("Conv", ["x", "w"], ["y"], "conv", **attributes)],
                [floats("x", *shape)],
                [floats("y", None, None, None, None)],
                [numpy_helper.from_array(np.ones(weight_shape, np.float32), "w")],
            )

        self.refuse_model(model((1, 3, 8, 8), (4, 2, 3, 3)), "conv", "1x3x8x8", "4x2x3x3")
        self.refuse_model(model((1, 3, 2, 2), (4, 3, 5, 5)), "conv", "impossible shape")
        self.refuse_model(model((1, 3, 8, 8), (4, 3, 3, 3), strides=[0, 0]), "conv", "strides")

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

    def test_a_bundle_larger_than_the_disk_is_refused_before_it_is_written(self):
        columns = shutil.disk_usage(self.tmp).free // 16  # twice as many bytes, in a file of holes
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8, columns])
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="weights")
        product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
        (self.tmp / "weights").touch()
        os.truncate(self.tmp / "weights", 32 * columns)
        model = model_of([product], [floats("x", 4, 8)], [floats("y", 4, columns)], [weight])
        (self.tmp / "model.onnx").write_bytes(model.SerializeToString())
        self.refuse_model(
            None, "--out", "the bundle takes", "free", options=("--ngpus", 2, "--memory", "900000GiB")
        )

    def test_results_that_cannot_be_written(self):
        onnx.save(small_model(), self.tmp / "model.onnx")
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [AUTOPAR, "plan", self.tmp / "model.onnx", "--ngpus", "2", "--json"],
                stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )
        self.assertEqual(done.returncode, 1)
        self.assert_refused(done, "standard output")

    def interrupt(self, number):
        """Signals a partition that has begun to write; false where it was done before."""
        command = [AUTOPAR, "partition", self.tmp / "model.onnx", "--ngpus", "2"]
        with subprocess.Popen(
            [*command, "--out", self.tmp / "out"], stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None and not list(self.tmp.glob("out.partial-*")):
                time.sleep(0.001)
            process.send_signal(number)
            error = process.communicate()[1]
        if process.returncode in (0, -number):  # it was done, or about to end
            self.assertEqual(len(list((self.tmp / "out").iterdir())), 6)
            shutil.rmtree(self.tmp / "out")
            return False
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("interrupted", error)
        self.assertEqual([path.name for path in self.tmp.iterdir()], ["model.onnx"])
        return True

    def test_interrupted(self):
        onnx.save(small_model((8, 1 << 22)), self.tmp / "model.onnx")
        for number in (signal.SIGINT, signal.SIGTERM):
            self.assertTrue(any(self.interrupt(number) for attempt in range(10)))


class BadOptionTest(BadInputTest):
    def symbolic(self):
        weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
        return model_of(
            [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
            [floats("x", "batch", 8)],
            [floats("y", "batch", 8)],
            [weight],
        )

    def test_symbolic_dimension_for_which_nothing_can_be_assumed(self):
        shape = numpy_helper.from_array(np.array([5, 7]), "shape")
        model = model_of(
            [helper.make_node("Reshape", ["x", "shape"], ["y"], "turn")],
            [floats("x", "batch", "width")], [floats("y", 5, 7)], [shape],
        )  # fmt: skip
        self.refuse_model(model, "'batch' 1, 'width' 128", "--shape x=1x128", "'turn'")
        x = model_of([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 1)], [floats("y", 1)])
        x.graph.input[0].type.tensor_type.ClearField("shape")
        self.refuse_model(x, "'x' has no shape", "--shape x=1x128")

    def test_symbolic_dimension_bound_to_nonsense(self):
        for shape in (f"x={1 << 62}x8", "x=ax8", "x=-1x8", "x=4x9", "x=4", "nothing=4x8", "x", "x=",
                      "batch=2x8", "nothing*=4x8", "batsh=3"):
            with self.subTest(shape):
                self.refuse_model(
                    self.symbolic(), "--shape", options=("--ngpus", 2, "--shape", shape)
                )

    def test_no_gpus(self):
        self.refuse_model(small_model(), "--ngpus 0", options=("--ngpus", 0))
        self.refuse_model(small_model(), "--ngpus -1", options=("--ngpus", -1))

    def test_mesh_of_another_product(self):
        for mesh in ("2x3", "4x", "0x4", "axb", "-2x-2", "4294967296x4294967300"):
            with self.subTest(mesh):
                self.refuse_model(
                    small_model(), "mesh", mesh, options=("--ngpus", 4, "--mesh", mesh)
                )

    def chain(self, rows=5, operators=3):
        """A chain of Relu on so many rows."""
        names = ["x", *(f"h{i}" for i in range(1, operators)), "y"]
        nodes = [
            helper.make_node("Relu", [a], [b], f"relu{i}")
            for i, (a, b) in enumerate(zip(names, names[1:]))
        ]
        return model_of(nodes, [floats("x", rows, 8)], [floats("y", rows, 8)])

    def test_stages(self):
        for options, parts in {
            ("--ngpus", 2, "--stages", 0): ("--stages 0",),
            ("--ngpus", 2, "--stages", "two"): ("--stages two", "auto"),
            ("--ngpus", 2, "--stages", 3): ("--stages 3", "2 devices"),
            ("--ngpus", 8, "--stages", 4): ("--stages 4", "3 operators"),
            ("--ngpus", 4, "--stages", 2, "--mesh", "3"): ("--mesh 3", "4"),
            ("--ngpus", 2, "--stages", 2, "--microbatches", 0): ("--microbatches 0",),
            ("--ngpus", 2, "--stages", 2, "--microbatches", 2): ("batch of 5", "divisor"),
            ("--ngpus", 2, "--stages", 2, "--microbatches", 4): ("--microbatches 4", "give 3"),
            ("--ngpus", 2, "--stages", 2, "--microbatches", 9): ("--microbatches 9", "give 5"),
            ("--ngpus", 2, "--microbatches", 5, "--batch", "z"): ("--batch z",),
            ("--ngpus", 2, "--batch", "x"): ("--batch x", "--microbatches"),
            ("--ngpus", 2, "--stages", 2, "--memory", "100B"): ("fits", "--memory"),
        }.items():
            with self.subTest(options):
                self.refuse_model(self.chain(), *parts, options=options)

    def test_microbatches_of_what_is_computed_across_the_batch(self):
        model = model_of(
            [helper.make_node("Softmax", ["x"], ["y"], "across", axis=0)],
            [floats("x", 4, 8)],
            [floats("y", 4, 8)],
        )
        options = ("--ngpus", 1, "--microbatches", 2, "--batch", "x")
        self.refuse_model(model, "'across'", "Softmax", "batch", options=options)

    def test_explaining_and_comparing_stages(self):
        file = self.tmp / "model.onnx"
        onnx.save(self.chain(), file)
        stages = ("--ngpus", 2, "--stages", 2)
        done = autopar("plan", file, *stages, "--explain", "relu0", expect=1)
        self.assert_refused(done, "--explain", "--stages")
        autopar("partition", file, *stages, "--out", self.tmp / "bundle")
        done = autopar("plan", "--compare", self.tmp / "bundle", self.tmp / "bundle", expect=1)
        self.assert_refused(done, "several stages")

    def test_simulated_trace_that_cannot_be_written(self):
        file = self.tmp / "model.onnx"
        onnx.save(self.chain(), file)
        place = self.tmp / "no" / "trace.json"
        done = autopar("plan", file, "--ngpus", 1, "--simulate", place, expect=1)
        self.assert_refused(done, f"--simulate: {place}")

    def test_mesh_auto(self):
        """Without --ngpus it is wrong usage; nodes have to be whole, and no more devices than can be."""
        onnx.save(small_model(), self.tmp / "model.onnx")
        for command, more in (("plan", ()), ("partition", ("--out", self.tmp / "out"))):
            done = autopar(command, self.tmp / "model.onnx", "--mesh", "auto", *more, expect=2)
            self.assertIn("--ngpus", done.stderr)
        for ngpus in (0, -4, 1 << 21, (1 << 31) - 1):
            with self.subTest(ngpus):
                options = ("--ngpus", ngpus, "--mesh", "auto")
                self.refuse_model(small_model(), str(ngpus), options=options)
        file = self.tmp / "device.json"
        link = {"latency_seconds": 1e-6, "bytes_per_second": 1e10}
        file.write_text(json.dumps({
            "name": "box", "source": "a test", "flops_per_second": {"float32": 1e12},
            "memory_bytes_per_second": 1e11, "launch_seconds": 0, "memory_bytes": 8e9,
            "links": [link, link], "gpus_per_node": 4,
        }))
        options = ("--ngpus", 6, "--mesh", "auto", "--device", file)
        self.refuse_model(small_model(), "6 devices", "nodes of 4", options=options)
        options = ("--ngpus", 4, "--mesh", "auto", "--memory", "1B")
        self.refuse_model(small_model(), "the smallest known to do is", options=options)

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
        for memory in ("lots", "0", "-1GiB", "nan", "80 GiB", ""):
            with self.subTest(memory):
                self.refuse_model(
                    small_model(), "--memory", options=("--ngpus", 2, "--memory", memory)
                )

    def test_time_limit_that_is_none(self):
        for seconds in ("nan", "-1"):
            self.refuse_model(
                small_model(), "--time-limit", options=("--ngpus", 2, f"--time-limit={seconds}")
            )

    def test_shape_given_twice(self):
        options = ("--ngpus", 2, "--shape", "x=4x8", "--shape", "x=4x8")
        self.refuse_model(self.symbolic(), "--shape", "'x' twice", options=options)

    def test_option_given_twice_or_no_number(self):
        onnx.save(small_model(), self.tmp / "model.onnx")
        for options in (("--ngpus", 2, "--ngpus", 4), ("--ngpus", "two"), ("--ngpus", 2.5), ()):
            autopar(
                "partition", self.tmp / "model.onnx", *options, "--out", self.tmp / "out", expect=2
            )
        self.assertFalse((self.tmp / "out").exists())

    def test_unknown_device(self):
        self.refuse_model(small_model(), "abacus", "h200", options=("--ngpus", 2, "--device", "abacus"))

    def test_device_file(self):
        """Wrong types, and numbers that make no sense; unit tests have every field."""
        link = {"latency_seconds": 1e-6, "bytes_per_second": 1e10}
        device = {
            "name": "box", "source": "a test", "flops_per_second": {"float32": 1e12},
            "memory_bytes_per_second": 1e11, "launch_seconds": 0, "memory_bytes": 8e9,
            "links": [link],
        }
        file = self.tmp / "device.json"
        for field, value, *parts in (
            ("links", {}, "links"),
            ("links", [{**link, "latency_seconds": "1us"}], "links[0].latency_seconds"),
            ("flops_per_second", 1e12, "flops_per_second"),
            ("memory_bytes", None, "memory_bytes"),
            ("flops_per_second", {"float32": 1e-300}, "flops_per_second.float32", "from 1 to"),
            ("launch_seconds", 1e300, "launch_seconds", "from 0 to"),
            ("memory_bytes_per_second", [], "memory_bytes_per_second", "at least one"),
            ("nodes", 2, "nodes", "gpus_per_node"),
        ):
            with self.subTest(field=field, value=value):
                file.write_text(json.dumps({**device, field: value}))
                self.refuse_model(small_model(), *parts, options=("--ngpus", 2, "--device", file))

    def strategy(self, text):
        file = self.tmp / "strategy.json"
        file.write_text(text)
        return ("--ngpus", 2, "--strategy", file)

    def test_strategy_that_names_no_node(self):
        options = self.strategy('{"operators": [{"name": "nobody", "outputs": ["RR"]}]}')
        self.refuse_model(small_model(), "nobody", options=options)

    def test_strategy_of_wrong_types(self):
        for text in (
            "", "[]", '{"operators": {}}', '{"operators": [1]}', '{"operators": [{"name": 1}]}',
            '{"operators": [{"name": "product", "outputs": "RR"}]}',
            '{"operators": [{"name": "product", "outputs": [1]}]}',
            '{"operators": [{"name": "product", "output": ["RR"]}]}',
        ):
            with self.subTest(text):
                self.refuse_model(small_model(), "strategy.json", options=self.strategy(text))
        self.refuse_model(
            small_model(), str(self.tmp), options=("--ngpus", 2, "--strategy", self.tmp)
        )

    def test_strategy_for_the_inputs_of_a_weight(self):
        options = self.strategy('{"operators": [{"name": "w", "inputs": ["S0R"]}]}')
        self.refuse_model(small_model(), "'w'", "outputs", options=options)

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

    def test_out_that_cannot_be_made(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model(), file)
        for out in ("", self.tmp / "nowhere" / "out", file / "out", "/proc/out"):
            with self.subTest(out):
                done = autopar("partition", file, "--ngpus", 2, "--out", out, expect=1)
                self.assert_refused(done, str(out) or "--out")

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_out_in_a_folder_that_may_not_be_written(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model(), file)
        parent = self.tmp / "parent"
        parent.mkdir(mode=0o500)
        done = autopar("partition", file, "--ngpus", 2, "--out", parent / "out", expect=1)
        self.assert_refused(done, str(parent), "Permission denied")

    def test_folder_that_is_no_bundle_is_never_replaced(self):
        file = self.tmp / "model.onnx"
        onnx.save(small_model(), file)
        (self.tmp / "out").mkdir()
        (self.tmp / "out" / "thesis.txt").write_text("years of work")
        done = autopar("partition", file, "--ngpus", 2, "--out", self.tmp / "out", "--force", expect=1)
        self.assert_refused(done, "out")
        self.assertTrue((self.tmp / "out" / "thesis.txt").exists())


class DisagreeingStagesTest(BadInputTest):
    """Stages that would wait for each other are refused, by every rank and without a hang."""

    def setUp(self):
        super().setUp()
        self.model = Model("gpt2-dynamo")
        self.bundle = self.tmp / "bundle"
        self.meta = self.model.partition(self.bundle, 2, "--stages", 2)
        self.transfers = self.meta["profiles"][0]["transfers"]
        self.message = self.transfers[0]["messages"][0]

    def refuse(self, *parts):
        write_meta_info(self.bundle, self.meta)
        run = ("run", "--dir", self.bundle, *self.model.input_options())
        self.assert_refused(autopar(*run, expect=1), "partition the model again", *parts)
        lines = mpirun(2, *run, expect=1).stderr.splitlines()
        errors = [line for line in lines if line.startswith("error")]
        self.assertIn(len(errors), (1, 2))  # at most one a rank
        for error in errors:
            self.assertIn("partition the model again", error)

    def test_a_message_of_another_size(self):
        self.message["bytes"] += 4
        self.refuse(self.transfers[0]["value"])

    def test_a_transfer_too_few(self):
        value = self.transfers.pop(0)["value"]
        self.refuse(value)

    def test_a_transfer_too_many(self):
        self.transfers.append({**self.transfers[0], "value": "unheard of"})
        self.refuse("unheard of")

    def test_a_message_within_a_stage(self):
        self.message["to"] = 0
        self.refuse("disagree")

    def test_ranks_of_two_stages(self):
        self.meta["stages"][1]["ranks"] = [0]
        self.refuse("rank 0")


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

    def test_changed_meta_info_plan_or_structure(self):
        for name in ("meta-info.json", "plan.json", "structure.onnx", "device.json"):
            whole = (self.bundle / name).read_bytes()
            changed = bytearray(whole)
            changed[len(changed) // 2] ^= 1
            (self.bundle / name).write_bytes(changed)
            self.refuse_run(name)
            for command in (
                ("inspect", self.bundle),
                ("verify", self.model.file, self.bundle, *self.model.constant_options()),
                ("serve", "--dir", self.bundle, "--listen", "127.0.0.1:0"),
            ):
                self.assert_refused(autopar(*command, expect=1), name)
            if name == "meta-info.json":
                ids = self.tmp / "ids.txt"
                ids.write_text("1 2\n")
                done = autopar("generate", "--dir", self.bundle, "--ids", ids, expect=1)
                self.assert_refused(done, name)
            (self.bundle / name).write_bytes(whole)

    def test_a_bundle_of_an_older_version(self):
        self.meta["version"] = 5
        del self.meta["digest"]
        (self.bundle / "meta-info.json").write_text(json.dumps(self.meta))
        self.refuse_run("version 5", "partition the model again")

    def test_missing_or_broken_meta_info(self):
        for text in ("", "{}", "[]", '{"version": 99}'):
            (self.bundle / "meta-info.json").write_text(text)
            self.refuse_run("meta-info.json")
        (self.bundle / "meta-info.json").unlink()
        self.refuse_run("meta-info.json")
        (self.bundle / "meta-info.json").mkdir()
        self.refuse_run("meta-info.json")

    def test_counts_that_are_none(self):
        for option in ("--repeat=0", "--repeat=-1", "--threads=-1", "--threads=9999", "--rank=-1"):
            with self.subTest(option):
                self.refuse_run(option.split("=")[0], options=[option, "--random-inputs", 1])
        done = autopar("verify", self.model.file, self.bundle, "--threads=-1", expect=1)
        self.assert_refused(done, "--threads")
        done = autopar("verify", self.model.file, self.bundle, "--tolerance=nan", expect=1)
        self.assert_refused(done, "--tolerance")

    def test_output_dir_that_is_a_file(self):
        (self.tmp / "file").write_text("mine")
        options = [*self.model.input_options(), "--output-dir"]
        self.refuse_run("--output-dir", "file", options=[*options, self.tmp / "file"])
        self.refuse_run("--output-dir", options=[*options, self.tmp / "file" / "below"])

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
        np.save(self.tmp / "x.npy", self.model.inputs["input_ids"][0])
        self.refuse_run("input_ids", "is 16", options=["--input", f"input_ids={self.tmp}/x.npy"])

    def test_input_file_that_is_no_tensor(self):
        (self.tmp / "x.npy").write_bytes(b"hello")
        (self.tmp / "x.pb").write_bytes(b"hello")
        for name in ("x.npy", "x.pb", "none.npy", "none.pb", "x.txt"):
            with self.subTest(name):
                self.refuse_run(name, options=["--input", f"input_ids={self.tmp}/{name}"])

    def test_npy_of_other_layouts(self):
        values = self.model.inputs["input_ids"]
        for array, part in (
            (np.asfortranarray(np.tile(values, (2, 1))), "Fortran"),
            (values.astype(">i8"), ">i8"),
            (values.astype(object), "|O"),
            (values.astype(np.complex64), "<c8"),
        ):
            with self.subTest(part):
                np.save(self.tmp / "x.npy", array)
                self.refuse_run("x.npy", part, options=["--input", f"input_ids={self.tmp}/x.npy"])

    def test_pb_of_too_little_data(self):
        proto = numpy_helper.from_array(self.model.inputs["input_ids"], "input_ids")
        proto.raw_data = proto.raw_data[:-8]
        (self.tmp / "x.pb").write_bytes(proto.SerializeToString())
        self.refuse_run("x.pb", "bytes", options=["--input", f"input_ids={self.tmp}/x.pb"])

    def test_input_option_of_another_form(self):
        file = next(iter(self.model.input_files.values()))
        for text in ("input_ids", f"={file}", "input_ids="):
            with self.subTest(text):
                self.refuse_run("--input", "NAME=FILE", options=["--input", text])
        options = ["--input", f"input_ids={file}", "--input", f"input_ids={file}"]
        self.refuse_run("--input", "'input_ids' twice", options=options)


class BadIndexTest(BadInputTest):
    def test_index_outside_a_table_whose_rows_are_split(self):
        table = numpy_helper.from_array(np.zeros((8, 4), np.float32), "table")
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [3])
        lookup = helper.make_node("Gather", ["table", "ids"], ["y"], "lookup")
        onnx.save(model_of([lookup], [ids], [floats("y", 3, 4)], [table]), self.tmp / "model.onnx")
        pins = {"operators": [{"name": "lookup", "inputs": ["S0R", "R"]}]}
        (self.tmp / "pins.json").write_text(json.dumps(pins))
        autopar(
            "partition", self.tmp / "model.onnx", "--ngpus", 2,
            "--strategy", self.tmp / "pins.json", "--out", self.tmp / "bundle",
        )
        for index in (8, -9):
            np.save(self.tmp / "ids.npy", np.array([1, index, 2]))
            done = autopar(
                "run", "--dir", self.tmp / "bundle", "--input", f"ids={self.tmp}/ids.npy", expect=1
            )
            self.assert_refused(done, "lookup", f"index {index} is out of range")


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
