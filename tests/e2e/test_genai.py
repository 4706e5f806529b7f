"""`autopar generate` beside onnxruntime-genai's own generation, on what its builder has exported."""

import random
import unittest

import onnxruntime_genai

from support import MODELS, TemporaryFolderTest, autopar

MADE_BY_ITS_BUILDER = sorted(file.parent.name for file in MODELS.glob("*/genai_config.json"))
END = 2  # of the texts, as genai_config.json has it
LENGTH = 64  # of its context: prompt and new tokens
SHAPES = ("sequence_length=1", f"past_sequence_length={LENGTH - 1}", f"total_sequence_length={LENGTH}",
          "kv_cache_dim=16")  # fmt: skip


def random_prompts(seed, count):
    generator = random.Random(seed)
    return [[generator.randrange(3, 509) for _ in range(generator.randrange(1, 20))]
            for _ in range(count)]  # fmt: skip


def expected(name, prompt, penalty):
    """The greedy text, without the token that ends it. A prompt at a time, which needs no padding."""
    model = onnxruntime_genai.Model(str(MODELS / name))
    options = onnxruntime_genai.GeneratorParams(model)
    options.set_search_options(max_length=LENGTH, do_sample=False, repetition_penalty=penalty)
    generator = onnxruntime_genai.Generator(model, options)
    generator.append_tokens([prompt])
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0).tolist()[len(prompt) :]


def without_end(text):
    return text[:-1] if text[-1] == END else text


class GenaiTest(TemporaryFolderTest):
    def generate(self, bundle, prompts, *options):
        file = self.tmp / "prompts"
        file.write_text("".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts))
        done = autopar("generate", "--dir", bundle, "--ids", file, "--device", "cpu", "--eos", END, *options)
        texts = done.stdout.splitlines()[: len(prompts)]
        return [without_end([int(token) for token in text.split()]) for text in texts]

    def check(self, name, bundle, prompts, penalty):
        new = LENGTH - max(map(len, prompts))
        texts = [expected(name, prompt, penalty)[:new] for prompt in prompts]
        self.assertGreater(max(len(set(text)) for text in texts), 8)  # else hardly anything is shown
        options = ("--max-tokens", new, "--repetition-penalty", penalty)
        self.assertEqual(self.generate(bundle, prompts, *options), texts)

    def test_its_own_exports_make_its_texts(self):
        self.assertEqual(MADE_BY_ITS_BUILDER, ["llama-gqa", "llama-gqa-4bit", "llama-mha"])
        for number, name in enumerate(MADE_BY_ITS_BUILDER):
            for batch, ranks in ((1, 1), (3, 2), (2, 4)):
                bundle = self.tmp / f"{name}-{batch}-{ranks}"
                shapes = [word for shape in (f"batch_size={batch}", *SHAPES) for word in ("--shape", shape)]
                autopar("partition", MODELS / name / "model.onnx", *shapes, "--ngpus", ranks, "--out", bundle)
                prompts = random_prompts(100 * number + ranks, 7)
                for penalty in (1.0, 5.0):
                    with self.subTest(name, batch=batch, ranks=ranks, penalty=penalty):
                        self.check(name, bundle, prompts, penalty)


if __name__ == "__main__":
    unittest.main()
