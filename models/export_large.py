#!/usr/bin/env python3
"""Makes large models' graphs without their weights: what `autopar plan` needs, in a few megabytes.

    export_large.py --out DIR NAME...                  llama3-8b, llama3-8b-thin, llama3-70b, llama3-405b, gpt3-175b,
                                                       falcon-180b, mixtral-8x7b, qwen3-moe-235b,
                                                       deepseek-v3
    export_large.py --out DIR NAME --layers 8 16 ...   the same with other numbers of layers
    export_large.py --out DIR NAME --zeros             with zeros as weights, in a sparse file
    export_large.py --out DIR NAME --step 8            a decoder's step of 8 layers of llama3-*, behind a cache

Each is DIR/NAME/model.onnx, or DIR/NAME-LAYERS/model.onnx, from PyTorch's torch.export-based exporter
as it comes, bfloat16, batch and sequence symbolic (`--shape input_ids=1x2048`). Weights refer to a data
file that does not exist, unless `--zeros` makes one. llama3-8b-thin is LLaMA-3 8B with an eighth of its
widths, node for node: it runs where the real one has no room.

`--layers` repeats a layer of the exporter's graph of a few layers, since exporting 1,024 takes hours, and
first checks that 4 layers more come out as the exporter makes them.
"""

import argparse
import time
from pathlib import Path

import onnx_ir
import torch
import transformers
from repeat_layers import assert_same_graph, repeat_layers
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from zoo import cached
from zoo.exporters import drop_metadata, export_program
from zoo.sample import COMMON, TOKENS, Sample, token_ids


BASE, CHECKED = 4, 8  # layers of one kind that the exporter makes for --layers
LARGEST_EMBEDDED_BYTES = 1024  # small constants stay in the file: shapes, rotary frequencies
SIZES = {
    "llama3-8b": (transformers.LlamaConfig, dict(
        hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        intermediate_size=14336, vocab_size=128256, max_position_embeddings=8192)),
    "llama3-8b-thin": (transformers.LlamaConfig, dict(
        hidden_size=512, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        intermediate_size=1792, vocab_size=16032, max_position_embeddings=8192)),
    "llama3-70b": (transformers.LlamaConfig, dict(
        hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8,
        intermediate_size=28672, vocab_size=128256, max_position_embeddings=8192)),
    "gpt3-175b": (transformers.GPT2Config, dict(
        n_embd=12288, n_layer=96, n_head=96, vocab_size=50257, n_positions=2048)),
    "mixtral-8x7b": (transformers.MixtralConfig, dict(
        hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        intermediate_size=14336, vocab_size=32000, max_position_embeddings=32768,
        num_local_experts=8, num_experts_per_tok=2)),
    "llama3-405b": (transformers.LlamaConfig, dict(
        hidden_size=16384, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8,
        intermediate_size=53248, vocab_size=128256, max_position_embeddings=8192)),
    "falcon-180b": (transformers.FalconConfig, dict(
        hidden_size=14848, num_hidden_layers=80, num_attention_heads=232, num_kv_heads=8,
        vocab_size=65024, new_decoder_architecture=True, parallel_attn=True, bias=False, alibi=False)),
    "qwen3-moe-235b": (transformers.Qwen3MoeConfig, dict(
        hidden_size=4096, num_hidden_layers=94, num_attention_heads=64, num_key_value_heads=4, head_dim=128,
        moe_intermediate_size=1536, num_experts=128, num_experts_per_tok=8, norm_topk_prob=True,
        vocab_size=151936, max_position_embeddings=40960)),
    "deepseek-v3": (transformers.DeepseekV3Config, dict(num_nextn_predict_layers=0)),  # its defaults are that model
}


def dense_experts(self, tokens, chosen, scores):
    """Every expert computes every token, and the router's scores, 0 where not chosen, weigh the sum.

    Transformers' own forms do not serve: its loop visits the experts that were chosen, which no static
    graph can; "batched_mm" gathers two experts' weights for each token, 962 GB at 2,048 tokens; and
    "grouped_mm" has no ONNX operator.
    """
    routing = torch.nn.functional.one_hot(chosen, self.num_experts).to(scores.dtype)
    routing = (routing * scores.unsqueeze(-1)).sum(dim=1).to(tokens.dtype)  # [tokens, experts]
    gate, up = (tokens @ self.gate_up_proj.transpose(1, 2)).chunk(2, dim=-1)  # [experts, tokens, hidden]
    result = (self.act_fn(gate) * up) @ self.down_proj.transpose(1, 2)
    return (result * routing.t().unsqueeze(-1)).sum(dim=0)


ALL_EXPERTS_FUNCTIONS.register("dense", dense_experts)


def hollow_model(name, layers):
    """The model with every parameter a view of one element: shapes and types, but no memory."""
    kind, sizes = SIZES[name]
    config = kind(use_cache=False, **COMMON, **sizes)
    if layers:
        config.num_hidden_layers = layers
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.config._experts_implementation = "dense"
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for module in model.modules():
        for key, parameter in module.named_parameters(recurse=False):
            element = torch.zeros(1, dtype=torch.bfloat16)
            hollow = torch.nn.Parameter(element.expand(parameter.shape), requires_grad=False)
            setattr(module, key, hollow)
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            # Rotary frequencies, say: computed, not learned.
            module._buffers = type(module)(config)._buffers
    if tied:
        model.get_output_embeddings().weight = model.get_input_embeddings().weight
    return model


def move_weights_out(program):
    """Large initializers become references into a file that is not written."""
    offset = 0
    for value in program.model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes < LARGEST_EMBEDDED_BYTES:
            continue
        value.const_value = onnx_ir.ExternalTensor(
            "model.onnx.data", offset, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name)
        offset += tensor.nbytes


def whole_sample(model):
    return Sample(model, inputs={"input_ids": token_ids(model.config.vocab_size)}, outputs=["logits"],
                  dynamic=TOKENS)


def step_sample(model):
    """A token behind a cache of any length, as zoo.cached.llama_step has it, in bfloat16."""
    past, present = cached.cache_of(model.config, model.config.num_key_value_heads)
    halves = {name: lambda rows, tokens, draw=draw: draw(rows, tokens).bfloat16()
              for name, draw in past.items()}
    return Sample(
        cached.Step(model),
        inputs={
            "input_ids": lambda rows, tokens: token_ids(model.config.vocab_size)(rows, cached.NEW),
            "attention_mask": lambda rows, tokens: torch.ones(rows, tokens + cached.NEW, dtype=torch.int64),
            "position_ids": lambda rows, tokens: torch.arange(tokens, tokens + cached.NEW).repeat(rows, 1),
            **halves,
        },
        outputs=["logits", *present], dynamic={0: "batch"},
        dynamic_of={"attention_mask": cached.ALL} | dict.fromkeys(past, cached.PAST)
        | dict.fromkeys(present, cached.PRESENT))


@torch.no_grad()
def export(name, layers=None, sample_of=whole_sample):
    """The exporter's own graph."""
    start = time.perf_counter()
    sample = sample_of(hollow_model(name, layers))
    program = export_program(sample, list(sample.inputs), tokens=16)
    move_weights_out(program)
    proto = program.model_proto
    print(f"{name}, {layers or 'all'} layers: {len(proto.graph.node)} nodes, exported in "
          f"{time.perf_counter() - start:.0f} s", flush=True)
    return proto


def weight_bytes(proto):
    """Where the last weight ends in the data file."""
    ends = [0]
    for tensor in proto.graph.initializer:
        place = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
        ends.append(place.get("offset", 0) + place.get("length", 0))
    return max(ends)


def write_zeros(proto, folder):
    with open(folder / "model.onnx.data", "wb") as file:
        file.truncate(weight_bytes(proto))


def write(proto, folder):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    drop_metadata(file)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", flush=True)


def write_series(name, counts, out):
    """The same model with several numbers of layers."""
    kind, sizes = SIZES[name]
    other = getattr(kind(**sizes), "first_k_dense_replace", 0)  # layers of another kind, which come first
    base, checked = export(name, other + BASE), export(name, other + CHECKED)
    period, rest = divmod(len(checked.graph.node) - len(base.graph.node), CHECKED - BASE)
    if rest:
        raise SystemExit(f"{name}: its layers differ in their numbers of nodes")
    assert_same_graph(repeat_layers(base, period, CHECKED - BASE), checked)
    for layers in counts:
        write(repeat_layers(base, period, layers - other - BASE), out / f"{name}-{layers}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="+", choices=SIZES, metavar="NAME")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, nargs="+")
    parser.add_argument("--step", type=int, metavar="LAYERS")
    parser.add_argument("--zeros", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        if options.layers:
            write_series(name, options.layers, options.out)
        else:
            folder = options.out / (f"{name}-step" if options.step else name)
            proto = export(name, options.step, step_sample if options.step else whole_sample)
            write(proto, folder)
            if options.zeros:
                write_zeros(proto, folder)


if __name__ == "__main__":
    main()
