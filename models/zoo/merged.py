"""A decoder in one file with a cache and without, as optimum's exporter for ONNX Runtime merges its
two: both are branches of one If, whose condition is the input `use_cache_branch`."""

import tempfile
from dataclasses import replace
from pathlib import Path

import onnx
import torch
import transformers
from onnx import TensorProto, helper
from transformers.modeling_outputs import BaseModelOutput

from .cached import KINDS
from .encoder_decoder import longer
from .exporters import torchscript
from .sample import COMMON, Sample, noise_for_tokens, padded_end, seeded, token_ids

NEW = 1  # token, where there is a cache
BRANCH = "use_cache_branch"
TOKENS = {0: "batch_size", 1: "decoder_sequence_length"}
PAST = {0: "batch_size", 2: "past_decoder_sequence_length"}
PRESENT = {0: "batch_size", 2: "past_decoder_sequence_length + decoder_sequence_length"}
ACROSS = {0: "batch_size", 2: "encoder_sequence_length"}
ENCODER = {0: "batch_size", 1: "encoder_sequence_length"}


class T5Decoder(torch.nn.Module):
    """The cache has a layer's own keys and values, `decoder`, and those of the encoder's output."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, encoder_attention_mask, input_ids, encoder_hidden_states,
                use_cache_branch=None, **past):
        is_cached = use_cache_branch is None or bool(use_cache_branch.all())
        cache = self.cache(past) if past and is_cached else None
        encoded = BaseModelOutput(last_hidden_state=encoder_hidden_states)
        result = self.model(
            decoder_input_ids=input_ids, encoder_outputs=encoded, attention_mask=encoder_attention_mask,
            past_key_values=cache or self.cache({}), use_cache=True)
        own, across = result.past_key_values.self_attention_cache, result.past_key_values.cross_attention_cache
        present = []
        for mine, encoders in zip(own.layers, across.layers):
            present += [mine.keys, mine.values]
            present += [encoders.keys, encoders.values] if cache is None else unchanged(encoders.keys)
        return result.logits, *present

    def cache(self, past):
        def pairs(part):
            return [[past[f"past_key_values.{layer}.{part}.{what}"] for what in KINDS]
                    for layer in range(self.config.num_decoder_layers)] if past else None

        return transformers.EncoderDecoderCache(
            transformers.DynamicCache(pairs("decoder")), transformers.DynamicCache(pairs("encoder")))


def unchanged(keys):
    """What the branch with a cache gives for the encoder's keys and values: nothing, for no batch."""
    return [keys.new_zeros(0, keys.shape[1], 1, keys.shape[3])] * 2


def t5(**sizes):
    """The sample of the branch with a cache."""
    config = transformers.T5Config(**COMMON, **sizes)
    names = [f"{layer}.{part}.{what}" for layer in range(config.num_decoder_layers)
             for part in ("decoder", "encoder") for what in KINDS]
    past = [f"past_key_values.{name}" for name in names]
    present = [f"present.{name}" for name in names]

    def cached(number):
        more = 3 if "encoder" in names[number] else 0  # the encoder's text is longer
        return lambda rows, tokens: torch.randn(
            rows, config.num_heads, tokens + more, config.d_kv, generator=seeded(number))

    hidden = longer(noise_for_tokens(config.d_model))
    return Sample(
        T5Decoder(transformers.T5ForConditionalGeneration(config)),
        inputs={
            "encoder_attention_mask": longer(padded_end),
            "input_ids": lambda rows, tokens: token_ids(config.vocab_size)(rows, NEW),
            "encoder_hidden_states": hidden,
            **{name: cached(number) for number, name in enumerate(past)},
            BRANCH: lambda rows, tokens: torch.tensor([True]),
        },
        outputs=["logits", *present], dynamic=TOKENS,
        dynamic_of={"encoder_hidden_states": ENCODER, "encoder_attention_mask": ENCODER, BRANCH: {}}
        | {name: ACROSS if "encoder" in name else PAST for name in past}
        | {name: ACROSS if "encoder" in name else PRESENT for name in present})


def merged(sample, tokens, file, embed=True):
    """Exports both and puts them together as optimum does: weights of one name and value are the
    whole graph's, and what the branch with a cache does not make is a constant without elements."""
    with_past = {name: draw for name, draw in sample.inputs.items() if name != BRANCH}
    first = {name: draw for name, draw in sample.inputs.items()
             if name != BRANCH and not name.startswith("past_key_values")}
    first["input_ids"] = lambda rows, tokens: token_ids(sample.model.config.vocab_size)(rows, tokens)
    with tempfile.TemporaryDirectory() as folder:
        models = []
        for number, inputs in enumerate((first, with_past)):
            path = Path(folder) / f"{number}.onnx"
            torchscript(replace(sample, inputs=inputs), tokens, path)
            models.append(onnx.load(path))
    without_cache, with_cache = models
    for output in with_cache.graph.output:
        if ".encoder." in output.name:
            make_empty(with_cache.graph, output, sample.model.config)
    shared = take_shared_weights(without_cache.graph, with_cache.graph)
    branches = {}
    for name, model in (("no_past", without_cache), ("with_past", with_cache)):
        graph = model.graph
        branches[name] = helper.make_graph(graph.node, name, [], graph.output, graph.initializer)
    inputs = {value.name: value for model in (without_cache, with_cache) for value in model.graph.input}
    node = helper.make_node(
        "If", [BRANCH], [output.name for output in without_cache.graph.output], name="optimum::if",
        then_branch=branches["with_past"], else_branch=branches["no_past"])
    graph = helper.make_graph(
        [node], "merged",
        [*inputs.values(), helper.make_tensor_value_info(BRANCH, TensorProto.BOOL, [1])],
        without_cache.graph.output, shared)
    whole = helper.make_model(
        graph, producer_name="optimum-onnx", opset_imports=without_cache.opset_import,
        ir_version=without_cache.ir_version)
    onnx.checker.check_model(whole)
    file.write_bytes(whole.SerializeToString(deterministic=True))


def make_empty(graph, output, config):
    """The output as a constant that has no elements: the caller keeps the one that it has."""
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [f"{each}.unused" if each == output.name else each for each in names]
    shape = [0, config.num_heads, 1, config.d_kv]
    value = helper.make_tensor(f"{output.name}.value", TensorProto.FLOAT, shape, [])
    graph.node.append(helper.make_node("Constant", [], [output.name], value=value))
    output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, shape))


def take_shared_weights(*graphs):
    """Those that all graphs have, by their values, out of them; each graph then uses one name."""
    keys = [{weight.name: (weight.data_type, tuple(weight.dims), weight.raw_data)
             for weight in graph.initializer} for graph in graphs]
    common = set(keys[0].values()).intersection(*(each.values() for each in keys[1:]))
    names, taken = {}, []
    for graph, of_graph in zip(graphs, keys):
        renamed = {}
        for weight in list(graph.initializer):
            key = of_graph[weight.name]
            if key not in common or not weight.dims:
                continue
            if key not in names:
                names[key] = f"{weight.name}_merged_0"
                shared = onnx.TensorProto()
                shared.CopyFrom(weight)
                shared.name = names[key]
                taken.append(shared)
            renamed[weight.name] = names[key]
            graph.initializer.remove(weight)
        for node in graph.node:
            node.input[:] = [renamed.get(name, name) for name in node.input]
    return taken
