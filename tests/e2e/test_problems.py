"""Several problems are told at once, a line each; what is probably not meant is warned of."""

import json
import subprocess
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from support import AUTOPAR, Model, autopar
from test_bad_input import BadInputTest, floats, model_of, small_model


class SeveralProblemsTest(BadInputTest):
    """What is wrong in places that do not depend on each other is told at once, a line each."""

    def assert_lines(self, done, *expected):
        """A line of error for each entry, with all parts of it."""
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(lines), len(expected), done.stderr)
        for parts in expected:
            matching = [line for line in lines if all(part in line for part in parts)]
            self.assertEqual(len(matching), 1, f"{parts} in {done.stderr}")

    def two_inputs(self):
        nodes = [helper.make_node("Add", ["x", "y"], ["z"], "sum")]
        return model_of(nodes, [floats("x", "n", 8), floats("y", "m", 8)], [floats("z", "n", 8)])

    def test_options(self):
        onnx.save(self.two_inputs(), self.tmp / "model.onnx")
        strategy = self.tmp / "strategy.json"
        strategy.write_text('{"operators": [{"name": 1}, {"name": "sum", "outputs": 1}]}')
        done = autopar(
            "partition", self.tmp / "model.onnx", "--ngpus", 4, "--mesh", "3", "--memory", "lots",
            "--time-limit=-1", "--strategy", strategy, "--shape", "x=4x9", "--shape", "u=1",
            "--shape", "v=2", "--constant", "w=gone.npy", "--loop", "a=b", "--loop", "z=c",
            "--out", strategy, expect=1,
        )  # fmt: skip
        self.assert_lines(
            done, ["--mesh 3"], ["--memory", "lots"], ["--time-limit -1"], ["operators[0]"],
            ["operators[1]", "sum"], ["strategy.json", "exists"], ["gone.npy"],
        )  # fmt: skip

    def test_names_and_shapes(self):
        self.tmp.joinpath("w.npy").write_bytes(b"")
        np.save(self.tmp / "w.npy", np.zeros(1))
        onnx.save(self.two_inputs(), self.tmp / "model.onnx")
        done = autopar(
            "plan", self.tmp / "model.onnx", "--ngpus", 2, "--shape", "x=4x9", "--shape", "u=1",
            "--shape", "v=2", "--constant", f"w={self.tmp}/w.npy", "--loop", "a=b", "--loop", "z=c",
            expect=1,
        )  # fmt: skip
        self.assert_lines(
            done, ["--shape x=4x9", "fixes it to 8"], ["--shape u=1, --shape v=2", "x, y", "n, m"],
            ["--constant w"], ["--loop a=b"], ["--loop z=c", "'c'"],
        )  # fmt: skip

    def test_shapes_that_are_missing_are_assumed_and_told_in_one_line(self):
        file = Model("llama-torchscript").file
        for shapes, assumed in {
            (): "Assumed: batch 1, sequence 128; --shape binds others",
            ("--shape", "sequence=16"): "Assumed: batch 1; --shape binds others",
            ("--shape", "sequence=16", "--shape", "batch=2"): "mesh 2, device h200",
            ("--shape", "*_mask=2x16"): "mesh 2, device h200",
        }.items():
            with self.subTest(shapes):
                told = autopar("plan", file, "--ngpus", 2, *shapes).stdout
                self.assertEqual(told.splitlines()[0], assumed)

    def test_shapes_of_symbols_and_globs_that_are_wrong(self):
        done = autopar(
            "plan", Model("gpt2-step").file, "--ngpus", 2, "--shape", "batsh_size=2", "--shape",
            "past_key_values.*=1x4x8", "--shape", "sequence_length=1x1", "--shape", "present.*=1",
            expect=1,
        )  # fmt: skip
        self.assert_lines(
            done, ["--shape batsh_size=2", "--shape present.*=1", "nearest to 'batsh_size': batch_size"],
            ["--shape past_key_values.*=1x4x8 has 3 dimensions", "'past_key_values.0.key'"],
            ["--shape sequence_length=1x1", "is a symbol"],
        )  # fmt: skip

    def test_a_shape_that_a_model_cannot_have_is_told_with_what_was_assumed(self):
        """Two sizes of which only the product is right: neither is tied to anything."""
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], "turn")]
        shape = onnx.numpy_helper.from_array(np.array([5, 7]), "shape")
        model = model_of(nodes, [floats("x", "p", "q")], [floats("y", 5, 7)], [shape])
        onnx.save(model, self.tmp / "model.onnx")
        done = autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, expect=1)
        self.assert_lines(done, ["'p' 128, 'q' 128", "--shape x=128x128", "'turn'", "128x128"])
        autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, "--shape", "p=1", "--shape", "q=35")

    def test_pins_that_name_nothing(self):
        file = self.tmp / "strategy.json"
        entries = [{"name": name, "outputs": ["RR"]} for name in ("nobody", "product", "nothing")]
        file.write_text(json.dumps({"operators": entries}))
        onnx.save(small_model(), self.tmp / "model.onnx")
        done = autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, "--strategy", file, expect=1)
        self.assert_lines(done, ["'nobody'"], ["'nothing'"])

    def test_pins_that_name_nothing_beside_shapes_and_batches(self):
        """What only the model's file has to tell is told though its shapes are wrong."""
        onnx.save(self.two_inputs(), self.tmp / "model.onnx")
        file = self.tmp / "strategy.json"
        names = ("nobody", "sum", "x", "sum/inside", "no*", "nothing")
        file.write_text(json.dumps({"operators": [{"name": name, "outputs": ["RR"]} for name in names]}))
        done = autopar(
            "plan", self.tmp / "model.onnx", "--ngpus", 2, "--shape", "x=4x9", "--strategy", file,
            "--microbatches", 2, "--batch", "u", "--batch", "x=0", "--batch", "v=1", expect=1,
        )  # fmt: skip
        self.assert_lines(done, ["--shape x=4x9"], ["'nobody'"], ["'nothing'"], ["--batch u"], ["--batch v=1"])
        done = autopar(
            "plan", self.tmp / "model.onnx", "--ngpus", 2, "--memory", "lots", "--strategy", file,
            "--batch", "u", expect=1,
        )  # fmt: skip
        self.assert_lines(
            done, ["--memory"], ["'nobody'"], ["'nothing'"], ["--batch u: give --microbatches"],
            ["--batch u: the model has no such input"],
        )  # fmt: skip
        shapes = ("--shape", "x=4x8", "--shape", "y=4x8")
        done = autopar(
            "plan", self.tmp / "model.onnx", *shapes, "--ngpus", 2, "--strategy", file,
            "--microbatches", 2, "--batch", "u", expect=1,
        )  # fmt: skip
        self.assert_lines(done, ["--batch u"], ["'nobody'"], ["'nothing'"], ["'sum/inside'"], ["'no*'"])

    def test_impossible_pins(self):
        """Each once, for the first operator that refuses it, beside those that name nothing."""
        nodes = [helper.make_node("Relu", ["x"], ["a"], "layer.0"), helper.make_node("Exp", ["a"], ["b"], "layer.1"),
                 helper.make_node("Add", ["b", "y"], ["z"], "sum")]  # fmt: skip
        model = model_of(nodes, [floats("x", 4, 8), floats("y", 4, 8)], [floats("z", 4, 8)])
        onnx.save(model, self.tmp / "model.onnx")
        file = self.tmp / "strategy.json"
        pins = {"nobody": "RR", "layer.*": "S1R", "sum": "RRR", "y": "RS1", "x": "S0R"}
        file.write_text(json.dumps({"operators": [{"name": n, "outputs": [s]} for n, s in pins.items()]}))
        done = autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, "--strategy", file, expect=1)
        self.assert_lines(done, ["'nobody'"], ["operator 'layer.0'", "S1R"], ["operator 'sum'", "RRR"],
                          ["tensor 'y'", "RS1"])  # fmt: skip

    def test_operators(self):
        """Each once, with how often it comes; what reads their outputs is not to blame."""
        nodes = [
            helper.make_node("Frobnicate", ["x"], ["a"], "odd", domain="com.example"),
            helper.make_node("Relu", ["a"], ["b"], "innocent"),
            helper.make_node("Frobnicate", ["b"], ["c"], "behind", domain="com.example"),
            helper.make_node("Frobnicate", ["x"], ["d"], "odder", domain="com.example"),
            helper.make_node("Glorp", ["x"], ["e"], "strange"),
            helper.make_node("SequenceConstruct", ["x", "x"], ["f"], "list"),
            helper.make_node("Concat", ["c", "d", "e"], ["y"], "end", axis=0),
        ]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 3)]
        model = model_of(nodes, [floats("x", 4)], [floats("y", 12)], opset_imports=opsets)
        onnx.save(model, self.tmp / "model.onnx")
        done = autopar("plan", self.tmp / "model.onnx", "--ngpus", 2, expect=1)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len([line for line in lines if "Frobnicate" in line]), 1, done.stderr)
        self.assertIn("2 nodes of Frobnicate", done.stderr)
        self.assertIn("'strange'", done.stderr)
        for name in ("innocent", "behind", "'end'"):
            self.assertNotIn(name, done.stderr)

    def test_inputs_of_a_run(self):
        model = Model("bert-torchscript")
        bundle = self.tmp / "bundle"
        model.partition(bundle, 2)
        np.save(self.tmp / "short.npy", model.inputs["attention_mask"][0])
        options = ("--input", f"input_ids={self.tmp}/gone.npy", "--input", f"attention_mask={self.tmp}/short.npy")
        done = autopar("run", "--dir", bundle, *options, expect=1)
        self.assert_lines(
            done, ["gone.npy"], ["'attention_mask' is 16"], ["no tensor for input 'token_type_ids'"]
        )
        done = autopar("run", "--dir", bundle, *options, "--repeat", 0, "--device", "abacus", expect=1)
        self.assert_lines(
            done, ["--repeat 0"], ["--device abacus"], ["gone.npy"], ["'attention_mask' is 16"],
            ["no tensor for input 'token_type_ids'"],
        )  # fmt: skip
        done = autopar("run", "--dir", bundle, expect=1)
        self.assert_lines(done, ["inputs 'input_ids', 'attention_mask', 'token_type_ids'"])


class WarningTest(BadInputTest):
    """What other runtimes take, and what is probably not meant."""

    def warnings(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith("warning")]

    def test_one_symbol_with_two_extents(self):
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["y"], ["b"])]
        model = model_of(nodes, [floats("x", "n", 8), floats("y", "n", 8)],
                         [floats("a", "n", 8), floats("b", "m", 8)])  # fmt: skip
        file = self.tmp / "model.onnx"
        onnx.save(model, file)
        feeds = {"x": np.ones((3, 8), np.float32), "y": np.ones((5, 8), np.float32)}
        options = []
        for name, array in feeds.items():
            np.save(self.tmp / f"{name}.npy", array)
            options += ["--shape", f"{name}={array.shape[0]}x8"]
        done = autopar("partition", file, *options, "--ngpus", 2, "--out", self.tmp / "bundle")
        warnings = [line for line in self.warnings(done) if "'n' to 3 in input 'x' and to 5" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        autopar("run", "--dir", self.tmp / "bundle", "--output-dir", self.tmp / "out",
                *(w for name in feeds for w in ("--input", f"{name}={self.tmp}/{name}.npy")))  # fmt: skip
        expected = onnxruntime.InferenceSession(file).run(None, feeds)
        for name, array in zip("ab", expected):
            np.testing.assert_array_equal(np.load(self.tmp / "out" / f"{name}.npy"), array)

    def plan_with_mask(self, name, past, mask, **more):
        """Whether it fails or not is the model's matter."""
        shapes = {"input_ids": "1x1", "attention_mask": f"1x{mask}", **more}
        for port in onnx.load(Model(name).file).graph.input:
            if port.name.startswith("past_key_values"):
                dims = [d.dim_value for d in port.type.tensor_type.shape.dim]
                shapes[port.name] = f"1x{dims[1]}x{past}x{dims[3]}"
        words = [word for key, shape in shapes.items() for word in ("--shape", f"{key}={shape}")]
        command = [AUTOPAR, "plan", Model(name).file, *words, "--ngpus", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [line for line in self.warnings(done) if "attention_mask" in line]

    def test_mask_of_another_length_than_past_and_new_tokens(self):
        """The sum stands in the input's own shape, or the outputs have the mask's symbol."""
        for name, more in (("gpt2-step", {}), ("llama-step-torchscript", {"position_ids": "1x1"})):
            with self.subTest(name):
                self.assertEqual(self.plan_with_mask(name, 4, 5, **more), [])
                for mask in (3, 4, 6):
                    warnings = self.plan_with_mask(name, 4, mask, **more)
                    self.assertEqual(len(warnings), 1, warnings)
                    self.assertIn("5", warnings[0])

    def test_sum_of_symbols_binds_what_is_left_open(self):
        """A mask as long as past and new tokens need not be given."""
        shapes = [f"past_key_values.{n}.{kind}=1x4x4x16" for n in (0, 1) for kind in ("key", "value")]
        words = [word for shape in ("input_ids=1x2", *shapes[:1]) for word in ("--shape", shape)]
        autopar("partition", Model("gpt2-step").file, *words, "--ngpus", 1, "--out", self.tmp / "bundle")
        meta = json.loads((self.tmp / "bundle" / "meta-info.json").read_text())
        of_mask = next(port for port in meta["profiles"][0]["inputs"] if port["name"] == "attention_mask")
        self.assertEqual(of_mask["shape"], [1, 6])


if __name__ == "__main__":
    unittest.main()
