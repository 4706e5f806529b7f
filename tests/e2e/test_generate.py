"""`autopar generate` beside transformers' `generate` (models/generated_texts.py has run it), and beside
ONNX Runtime stepping through the same file."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnxruntime

from support import AUTOPAR, MODELS, TemporaryFolderTest, autopar, mpirun
from test_rendezvous import free_port

STEP = "sequence=1 past_sequence=67"
GENAI = "sequence_length=1 past_sequence_length=67 total_sequence_length=68 kv_cache_dim=16"
# Shapes with place for what transformers has made, by model; the batch's symbol comes first. Models
# without a cache read the whole text in each run.
SHAPES = {
    "gemma2-torchscript": ("batch", "sequence=68"),
    "gpt2-torchscript": ("batch", "sequence=64"),
    "gemma2-dynamo": ("batch", "sequence=68"),
    "llama-gqa": ("batch_size", GENAI),
    "llama-gqa-4bit": ("batch_size", GENAI),
    "llama-mha": ("batch_size", GENAI),
    "llama-static": ("batch", ""),
    "llama-step-dynamo": ("batch", STEP + " all_sequence=68"),
    "llama-step-torchscript": ("batch", STEP),
    "mixtral-torchscript": ("batch", "sequence=68"),
    "qwen2-torchscript": ("batch", "sequence=68"),
}
# By model: the batch's symbol. Nothing else is given, so that runs make their shapes themselves.
BARE = {name: symbol for name, (symbol, _) in SHAPES.items()} | {"gpt2-step": "batch_size"}
# An architecture each.
FIVE = ("gemma2-torchscript", "gpt2-torchscript", "llama-step-torchscript", "mixtral-torchscript",
        "qwen2-torchscript")  # fmt: skip

# By throughput, so that each has about half of the layers.
TWO_STAGES = {
    "two stages of one": ["--ngpus", 2, "--stages", 2, "--objective", "throughput"],
    "two stages of two": ["--ngpus", 4, "--stages", 2, "--mesh", 2, "--objective", "throughput"],
}


class Reference:
    """ONNX Runtime, a token a step, a prompt at a time."""

    def __init__(self, name):
        self.session = onnxruntime.InferenceSession(MODELS / name / "model.onnx")
        self.inputs = {port.name: port.shape for port in self.session.get_inputs()}
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.past = [name for name in self.inputs if name.startswith("past")]

    def empty(self, name):
        others = {"batch": 1, "batch_size": 1, "kv_cache_dim": 16}
        return np.zeros(
            [d if isinstance(d, int) else others.get(d, 0) for d in self.inputs[name]], np.float32
        )

    def text(self, prompt, new, penalty=1.0):
        """The greedy text."""
        tokens, past = list(prompt), {name: self.empty(name) for name in self.past}
        step = 0
        while len(tokens) < len(prompt) + new:
            read = tokens[step : step + 1] if self.past else tokens
            feeds = {
                "input_ids": np.array([read]),
                "attention_mask": np.ones((1, step + 1 if self.past else len(tokens)), np.int64),
                "position_ids": np.array([[step]]),
                "cache_position": np.array([step]),
                **past,
            }
            made = self.session.run(None, {k: v for k, v in feeds.items() if k in self.inputs})
            results = dict(zip(self.outputs, made, strict=True))
            past = {
                name: results[name.replace("past_key_values", "present").replace("past", "present")]
                for name in past
            }
            step += 1
            if not self.past or step == len(tokens):
                scores = results["logits"][0, -1].copy()
                for token in set(tokens):
                    scores[token] *= penalty if scores[token] < 0 else 1 / penalty
                tokens.append(int(scores.argmax()))
        return tokens[len(prompt) :]


class Bundles(TemporaryFolderTest):
    def partition(self, name, batch, mesh, *more, shapes=None):
        """`mesh` is a number of ranks, "2x2", or in TWO_STAGES."""
        symbol = BARE[name]
        shapes = SHAPES[name][1] if shapes is None else shapes
        words = [word for each in (f"{symbol}={batch}", *shapes.split()) for word in ("--shape", each)]
        on = TWO_STAGES.get(mesh, ["--ngpus", 4, "--mesh", mesh] if mesh == "2x2" else ["--ngpus", mesh])
        bundle = Path(tempfile.mkdtemp(dir=self.tmp)) / f"{name}-{batch}-{mesh}"
        autopar("partition", MODELS / name / "model.onnx", *words, *on, *more, "--out", bundle)
        return bundle


class GenerateTest(Bundles):
    def ids(self, prompts):
        file = self.tmp / "ids"
        file.write_text("".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts))
        return file

    def parsed(self, stdout):
        lines = stdout.splitlines()
        half = len(lines) // 2
        texts = [[int(token) for token in line.split()] for line in lines[:half]]
        return texts, [json.loads(line) for line in lines[half:]]

    def generate(self, bundle, prompts, *more):
        words = ["generate", "--dir", bundle, "--ids", self.ids(prompts), "--device", "cpu", *more]
        return self.parsed(autopar(*words).stdout)[0]

    def expected(self, name):
        made = json.loads((MODELS / name / "generated.json").read_text())
        new = len(made["texts"][0])
        return made["prompts"], made["texts"], new

    def check(self, name, batch, mesh, shapes=None):
        prompts, texts, new = self.expected(name)
        with self.subTest(name, batch=batch, mesh=mesh, shapes=shapes):
            bundle = self.partition(name, batch, mesh, shapes=shapes)
            words = ["--max-tokens", new]
            self.assertEqual(self.generate(bundle, prompts, *words), texts)
            made = json.loads((MODELS / name / "generated.json").read_text())
            penalised, words = made["penalised"], [*words, "--repetition-penalty", made["repetition_penalty"]]
            self.assertGreater(len(set(penalised[0])), 8)  # else hardly anything is shown
            self.assertEqual(self.generate(bundle, prompts, *words), penalised)

    def test_texts_of_transformers(self):
        for i, name in enumerate(FIVE):
            for j, mesh in enumerate((1, 2, 3, 4, "2x2")):
                self.check(name, 3 if (i + j) % 2 == 0 else 1, mesh)

    def test_texts_of_transformers_by_other_exporters(self):
        for i, name in enumerate(sorted(set(SHAPES) - {*FIVE, "llama-gqa-4bit"})):
            self.check(name, 3, 2 + i % 2)
            self.check(name, 1, 1)

    def test_texts_of_transformers_in_two_stages(self):
        for i, name in enumerate(sorted({*SHAPES} - {"llama-gqa-4bit"})):
            for j, stages in enumerate(TWO_STAGES):
                self.check(name, 3 if (i + j) % 2 == 0 else 1, stages)
        for j, stages in enumerate(TWO_STAGES):  # what the ones above have not
            self.check("llama-step-torchscript", 3 if j == 0 else 1, stages)

    def test_prompts_in_one_run_in_two_stages(self):
        """Graphs for the prompts' shapes are made on the ranks of both stages."""
        for name in ("llama-step-torchscript", "gemma2-torchscript", "llama-gqa"):
            for j, stages in enumerate(TWO_STAGES):
                self.check(name, 1 if j == 0 else 3, stages, shapes="")

    def test_a_cache_lies_on_its_stage(self):
        bundle = self.partition("llama-step-torchscript", 3, "two stages of two")
        info = json.loads((bundle / "meta-info.json").read_text())
        ports = {port["name"]: port for side in ("inputs", "outputs") for port in info["profiles"][0][side]}
        stages = []
        for state in info["states"]:
            ranks = [
                [rank for rank, ranges in enumerate(ports[name]["ranges"]) if ranges is not None]
                for name in (state["output"], state["input"])
            ]
            self.assertEqual(ranks[0], ranks[1])
            self.assertIn(ranks[0], [stage["ranks"] for stage in info["stages"]])
            stages.append(ranks[0])
        self.assertEqual(stages, [[0, 1]] * 2 + [[2, 3]] * 2)

    def test_texts_of_transformers_by_bundles_of_no_shape(self):
        """Prompts are read in one run each, or one of all, and steps have buffers that are long
        enough: no profile has these shapes."""
        for i, name in enumerate(FIVE):
            self.check(name, 1, 1 + i % 4, shapes="")
            self.check(name, 3, "2x2" if i == 2 else 2, shapes="")
        for i, name in enumerate(sorted(set(SHAPES) - {*FIVE, "llama-gqa-4bit"})):
            self.check(name, 3 - 2 * (i % 2), 2, shapes="")

    def test_texts_by_a_bundle_of_prompts_and_steps(self):
        """Two profiles, of which a prompt has exactly the one's shape, or nearly."""
        profiles = "sequence=5,1 past_sequence=0,67"
        for mesh in (2, "2x2", *TWO_STAGES):
            self.check("llama-step-torchscript", 1, mesh, shapes=profiles)
            self.check("llama-step-torchscript", 3, mesh, shapes=profiles)

    def test_a_past_that_grows(self):
        """The model counts the rows of its past itself, so that every run has a shape of its own."""
        prompts = [[11, 402, 7], [5, 6], [300, 17, 44, 250, 96]]
        reference = Reference("gpt2-step")
        texts = [reference.text(prompt, 20) for prompt in prompts]
        for batch, mesh in ((1, 1), (3, 2), (2, 3), (2, "two stages of two")):
            with self.subTest(batch=batch, mesh=mesh):
                bundle = self.partition("gpt2-step", batch, mesh, shapes="")
                self.assertEqual(self.generate(bundle, prompts, "--max-tokens", 20), texts)

    def test_texts_longer_than_any_profile(self):
        name = "llama-step-torchscript"
        prompts, texts, new = self.expected(name)
        for shapes in ("sequence=1 past_sequence=20", "sequence=4 past_sequence=4"):
            with self.subTest(shapes):
                bundle = self.partition(name, 3, 2, shapes=shapes)
                self.assertEqual(self.generate(bundle, prompts, "--max-tokens", new), texts)
        whole = self.partition("gemma2-torchscript", 1, 2, shapes="sequence=8")
        prompts, texts, new = self.expected("gemma2-torchscript")
        self.assertEqual(self.generate(whole, prompts, "--max-tokens", new), texts)

    def test_prompts_that_the_model_reads_a_token_at_a_time_alone(self):
        """Its inputs are declared for any number of tokens, but torch made it for one."""
        name = "llama-step-dynamo"
        prompts, texts, new = self.expected(name)
        bundle = self.partition(name, 1, 2)
        words = ["generate", "--dir", bundle, "--ids", self.ids(prompts), "--max-tokens", new]
        done = autopar(*words)
        self.assertEqual(self.parsed(done.stdout)[0], texts)
        self.assertIn("prompts are read a token at a time", done.stderr)

    def test_texts_of_onnx_runtime(self):
        for name, new in (("llama-gqa-4bit", 59), ("llama-static", 11), ("gpt2-torchscript", 30)):
            with self.subTest(name):
                prompts = self.expected("llama-static")[0]
                reference = Reference(name)
                bundle = self.partition(name, 2, 2)
                for penalty in (1.0, 1.3):
                    words = ["--max-tokens", new, "--repetition-penalty", penalty]
                    self.assertEqual(
                        self.generate(bundle, prompts, *words),
                        [reference.text(prompt, new, penalty) for prompt in prompts],
                    )

    def test_a_token_ends_a_text(self):
        name = "llama-step-torchscript"
        prompts, texts, new = self.expected(name)
        ends = [texts[0][9], texts[2][3]]
        cut = [
            text[: 1 + min(i for i, token in enumerate(text) if token in ends or i + 1 == new)]
            for text in texts
        ]
        bundle = self.partition(name, 3, 2)
        words = ["generate", "--dir", bundle, "--ids", self.ids(prompts), "--max-tokens", new]
        for end in ends:
            words += ["--eos", end]
        found, told = self.parsed(autopar(*words).stdout)
        self.assertEqual(found, cut)
        for i, line in enumerate(told):
            self.assertEqual(line["prompt"], i)
            self.assertEqual(line["prompt_tokens"], len(prompts[i]))
            self.assertEqual(line["new_tokens"], len(cut[i]))
            self.assertEqual(line["stop"], "eos" if cut[i][-1] in ends else "length")
            self.assertGreater(line["prompt_tokens_per_second"], 0)
            self.assertGreater(line["step_tokens_per_second"], 0)

    def test_without_a_number_of_tokens_the_cache_is_filled(self):
        name = "llama-static"
        prompts, texts, _ = self.expected(name)
        found = self.generate(self.partition(name, 1, 2), prompts)
        self.assertEqual([len(text) + len(prompt) for text, prompt in zip(found, prompts)], [17] * 3)
        self.assertEqual([text[:11] for text in found], texts)

    def test_drawn_tokens(self):
        """They depend on the seed and the prompt's number, and on neither batch nor ranks."""
        name = "llama-step-torchscript"
        prompts, texts, new = self.expected(name)
        prompts, texts = prompts * 2, texts * 2
        alone, together = self.partition(name, 1, 1), self.partition(name, 4, 2)
        drawn = ["--max-tokens", new, "--temperature", 2.5, "--top-k", 40, "--top-p", 0.9]
        first = self.generate(alone, prompts, *drawn, "--seed", 5)
        self.assertEqual(self.generate(together, prompts, *drawn, "--seed", 5), first)
        self.assertNotEqual(first[0], first[3])
        self.assertNotEqual(self.generate(together, prompts, *drawn, "--seed", 6), first)
        most_likely = ["--max-tokens", new, "--temperature", 9, "--top-k", 1, "--seed", 6]
        self.assertEqual(self.generate(together, prompts, *most_likely), texts)

    def test_processes(self):
        """MPI, where rank 0 alone has the prompts, and a rendezvous."""
        for mesh in (2, "two stages of one"):
            with self.subTest(mesh=mesh):
                self.check_processes(mesh)

    def check_processes(self, mesh):
        name = "llama-step-torchscript"
        prompts, texts, new = self.expected(name)
        bundle = self.partition(name, 2, mesh)
        words = ["generate", "--dir", str(bundle), "--max-tokens", str(new), "--device", "cpu"]
        ids = self.ids(prompts)
        self.assertEqual(self.parsed(mpirun(2, *words, "--ids", ids).stdout)[0], texts)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        root += ["--oversubscribe"]
        done = subprocess.run(["mpirun", *root, "-np", "2", AUTOPAR, *words, "--ids", "-"],
                              input=ids.read_text(), capture_output=True, text=True, timeout=300,
                              check=True)  # fmt: skip
        self.assertEqual(self.parsed(done.stdout)[0], texts)
        port = free_port()
        started = [
            subprocess.Popen([AUTOPAR, *words, "--ids", "-", "--rank", str(rank),
                              "--rendezvous", f"127.0.0.1:{port}"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for rank in range(2)
        ]  # fmt: skip
        printed = [process.communicate(ids.read_text(), timeout=300)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0])
        self.assertEqual(self.parsed(printed[0])[0], texts)
        self.assertEqual(printed[1], "")
        failed = subprocess.run(["mpirun", *root, "-np", "2", AUTOPAR, *words, "--ids", "-"],
                                input="1 2\n1 509\n", capture_output=True, text=True, timeout=300,
                                check=False)  # fmt: skip
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("prompt 1 has token 509, but the model's are 0 to 508", failed.stderr)


class BadInputTest(Bundles):
    def refused(self, bundle, text, *more):
        ids = self.tmp / "bad"
        ids.write_text(text)
        done = autopar("generate", "--dir", bundle, "--ids", ids, *more, expect=1)
        return done.stderr.splitlines()

    def test_prompts(self):
        bundle = self.partition("llama-step-torchscript", 1, 1)
        for text, line in (
            ("1 2\n\n3\n", f"error: {self.tmp}/bad, line 2 is empty"),
            ("1 2\n3, x4\n", f"error: {self.tmp}/bad, line 2: 'x4' is no number of a token"),
            ("1.5\n", f"error: {self.tmp}/bad, line 1: '1.5' is no number of a token"),
            ("", f"error: {self.tmp}/bad has no prompt"),
            ("1 -1\n", "error: prompt 0 has token -1, but the model's are 0 to 508"),
            ("1 509\n", "error: prompt 0 has token 509, but the model's are 0 to 508"),
            ("1 " * 68, "error: prompt 0 has 68 tokens, but the bundle has place for 67: give "
             "--max-tokens"),
        ):  # fmt: skip
            with self.subTest(line):
                told = self.refused(bundle, text)
                self.assertEqual(len(told), 1, told)
                self.assertTrue(told[0].startswith(line), told)
        told = self.refused(bundle, "1 x\n1 509\n\n", "--top-p", 2, "--max-tokens", 0, "--top-k", -1)
        self.assertEqual(len(told), 5, told)
        self.assertIn("--seed", self.refused(bundle, "1\n", "--seed", 3)[0])

    def test_rows_that_are_full(self):
        bundle = self.partition("llama-static", 2, 2)
        line = "error: prompt 1 of 12 tokens: its rows would be full at new token 6 of 12: partition"
        told = self.refused(bundle, "1 2\n" + "7 " * 12, "--max-tokens", 12)
        self.assertEqual(len(told), 1, told)
        self.assertTrue(told[0].startswith(line), told)
        # Where a token may end the text before, it is told when there is no place.
        told = self.refused(bundle, "1 2\n" + "7 " * 12, "--max-tokens", 12, "--eos", 508)
        self.assertTrue(told[0].startswith("error: prompt 1: its rows are full at new token 6 of 12"))

    def test_bundles_that_are_no_decoders(self):
        for name, shapes, line in (
            ("bert-dynamo", (), "it has no output 'logits'"),
            ("vit-dynamo", (), "it has no input 'input_ids'"),
            ("t5-decoder-dynamo", (), "what its inputs 'encoder_hidden_states', "
             "'encoder_attention_mask' are to get is not known"),
        ):  # fmt: skip
            with self.subTest(name):
                words = [word for shape in shapes for word in ("--shape", shape)]
                bundle = self.tmp / name
                autopar("partition", MODELS / name / "model.onnx", *words, "--ngpus", 2, "--out", bundle)
                told = self.refused(bundle, "1\n")
                self.assertEqual(len(told), 1, told)
                self.assertTrue(told[0].startswith(f"error: {bundle} cannot generate text: {line}"), told)


if __name__ == "__main__":
    unittest.main()
