"""A sample model, with nothing said of its shapes, is planned, split and run on what is assumed."""

import json
import os
import re
import unittest

import numpy as np
import onnxruntime

from support import Model, TemporaryFolderTest, autopar, relative_error

# Models whose outputs are compared: their dimensions are tied together, or they have a tail.
COMPARED = (
    "bert-dynamo",
    "detector-fcos",
    "llama-gqa",
    "llama-step-dynamo",
    "mlp-dynamo",
    "t5-merged",
)
# What is told of models with ties, or with tables of positions that end early.
ASSUMED = {
    "bert-dynamo": "batch 1, sequence 64",
    "gpt2-step": "batch_size 1, sequence_length 32, past_sequence_length 32",
    "llama-gqa": "batch_size 1, sequence_length 32, total_sequence_length = sequence_length + "
    "past_sequence_length = 64, past_sequence_length 32, kv_cache_dim 16",
    "llama-step-dynamo": "batch 1, sequence 1, all_sequence = past_sequence + 1 = 129, past_sequence 128",
    "llama-step-torchscript": "batch 1, sequence 128, all_sequence = sequence + past_sequence = 256, "
    "past_sequence 128",
    "unet-dynamo": "batch 1, sequence 128",
}
# What is handed from step to step, found from names and shapes alone; other models have no caches.
STATES = {
    **dict.fromkeys(
        ("gpt2-step", "llama-gqa", "llama-gqa-4bit", "llama-mha", "llama-static",
         "llama-step-dynamo", "llama-step-torchscript"),
        "4 as present.*.key=past_key_values.*.key, present.*.value=past_key_values.*.value",
    ),
    # The branch with a cache makes nothing of the encoder's: it stays an input.
    "t5-merged": "4 as present.*.decoder.key=past_key_values.*.decoder.key, "
    "present.*.decoder.value=past_key_values.*.decoder.value",
}  # fmt: skip
TYPES = {"float32": np.float32, "int64": np.int64, "int32": np.int32, "bool": np.bool_}


def drawn(name, type_name, shape):
    """An input that a model takes whatever its values stand for: tokens, masks, caches, images."""
    if type_name == "float32":
        return np.random.default_rng(0).random(shape, np.float32)
    if "mask" in name:
        return np.ones(shape, TYPES[type_name])
    if type_name == "bool" or "token_type" in name:
        return np.zeros(shape, TYPES[type_name])
    return np.arange(np.prod(shape), dtype=TYPES[type_name]).reshape(shape) % 60


class BareTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.name = os.environ["AUTOPAR_MODEL"]
        self.model = Model(self.name)
        self.bundle = self.tmp / "bundle"

    def split(self, command, *more):
        """With a value for what is no shape, where the model has such an input."""
        constants = self.model.constant_options()
        return autopar(
            command, self.model.file, *constants, "--ngpus", 2, "--time-limit", 5, *more
        )  # fmt: skip

    def partition(self):
        """What is told of the bundle that is written."""
        return self.split("partition", "--out", self.bundle).stderr

    def inputs(self):
        """By name, of the shapes that the bundle is for."""
        ports = json.loads((self.bundle / "meta-info.json").read_text())["profiles"][0]["inputs"]
        return {port["name"]: drawn(port["name"], port["type"], port["shape"]) for port in ports}

    def options(self, inputs):
        options = []
        for i, (name, array) in enumerate(inputs.items()):
            np.save(self.tmp / f"{i}.npy", array)
            options += ["--input", f"{name}={self.tmp}/{i}.npy"]
        return options

    def test_plan_and_partition(self):
        told = self.split("plan").stdout
        self.assertEqual(self.partition().splitlines()[0], told.splitlines()[0])
        is_open = any(isinstance(d, str) for port in self.ports() for d in port["dims"])
        self.assertEqual(told.startswith("Assumed: "), is_open, told)
        states = re.findall(r"^States, from step to step: (.*); --loop names others, or none$", told, re.M)
        self.assertEqual(states, [STATES[self.name]] if self.name in STATES else [])
        if self.name in ASSUMED:
            self.assertIn(f"Assumed: {ASSUMED[self.name]}; --shape binds others\n", told)

    @unittest.skipUnless(os.environ["AUTOPAR_MODEL"] == "t5-merged", "it has no such input")
    def test_a_value_that_is_missing_is_told_in_one_line(self):
        done = autopar("plan", self.model.file, "--ngpus", 2, expect=1)
        self.assertRegex(done.stderr, "^error: .*'use_cache_branch'.*--constant.*\n$")

    def ports(self):
        ports = json.loads(autopar("inspect", self.model.file, "--json").stdout)["inputs"]
        for port in ports:
            port["dims"] = [int(d) if d.isdigit() else d for d in port["dims"]]
        return ports

    @unittest.skipUnless(os.environ["AUTOPAR_MODEL"] in COMPARED, "it is planned and split alone")
    def test_runs_as_onnx_runtime_does(self):
        self.partition()
        inputs = self.inputs()
        options = self.options(inputs)
        constants = self.model.constant_options()
        autopar("verify", self.model.file, self.bundle, *constants, *options)
        out = self.tmp / "out"
        autopar("run", "--dir", self.bundle, *options, "--output-dir", out)
        session = onnxruntime.InferenceSession(self.model.file)
        structural = {n: a for n, a in self.model.inputs.items() if n in self.model.STRUCTURAL}
        expected = session.run(None, {**inputs, **structural})
        for port, array in zip(session.get_outputs(), expected, strict=True):
            safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in port.name)
            error = relative_error(array, np.load(out / f"{safe}.npy"))
            self.assertLessEqual(error, self.model.tolerance, port.name)
