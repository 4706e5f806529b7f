"""PyTorch's two exporters. Each takes a sample, a number of tokens and the file to write."""

import onnx
import torch

from .sample import Wrapper

# Two rows: a trace of one row can hold for one row only, whatever its symbolic dimension says.
ROWS = 2

SCOPES = "pkg.torch.onnx.name_scopes"


def torchscript(sample, tokens, file, embed=True, opset=14):
    """The one that traces, at the opset that was long the default. Weights up to 2 GB are in the file
    whatever `embed` says."""
    names = list(sample.inputs)
    axes = {name: sample.dynamic_dimensions(name) for name in [*names, *sample.outputs]}
    torch.onnx.export(
        Wrapper(sample, names), sample.draw(names, ROWS, tokens), file, dynamo=False, opset_version=opset,
        input_names=names, output_names=sample.outputs, dynamic_axes=axes)


def newer_torchscript(sample, tokens, file, embed=True):
    """At the first opset that has GridSample."""
    torchscript(sample, tokens, file, embed, opset=16)


def dynamo(sample, tokens, file, embed=True):
    """The one that is built on torch.export."""
    export_program(sample, dynamo_names(sample), tokens).save(file, external_data=not embed)
    drop_metadata(file)


def dynamo_names(sample):
    return [name for name in sample.inputs if name not in sample.not_for_dynamo]


def export_program(sample, names, tokens):
    """As `dynamo` does it, at its default opset, in memory."""
    shapes = (tuple(sample.dynamic_dimensions(name) for name in names),)
    return torch.onnx.export(
        Wrapper(sample, names), sample.draw(names, ROWS, tokens), dynamo=True, opset_version=20,
        input_names=names, output_names=sample.outputs, dynamic_shapes=shapes, verbose=False)


def drop_metadata(file):
    """Drops what tells where a node comes from, but for its scopes, "layers.0.mlp": the rest names
    files of the machine that exported, and classes of ours. So the same model gets the same bytes
    anywhere."""
    model = onnx.load(file, load_external_data=False)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == SCOPES]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    file.write_bytes(model.SerializeToString(deterministic=True))
