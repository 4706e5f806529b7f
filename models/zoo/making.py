"""A sample's folder: model.onnx, and test data that PyTorch agrees with."""

import numpy as np
import onnxruntime
import torch
from onnx import numpy_helper

from .sample import Wrapper


def randomise_constants(model):
    """Biases, normalisations' weights and the statistics that they keep are constant at first; a test
    would not miss them."""
    generator = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer += 0.2 * torch.rand(buffer.shape, generator=generator)


def run_checked(session, sample, rows, tokens, tolerance):
    """ONNX Runtime's inputs and outputs by name. A trace can be wrong without a word: PyTorch must agree."""
    names = [port.name for port in session.get_inputs()]
    inputs = sample.draw(names, rows, tokens)
    feeds = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    results = {port.name: array for port, array in zip(session.get_outputs(), session.run(None, feeds))}
    expected = Wrapper(sample, names)(*inputs)
    expected = (expected,) if isinstance(expected, torch.Tensor) else expected
    for name, tensor in zip(sample.outputs, expected, strict=True):
        difference = np.abs(results[name] - tensor.numpy()).max(initial=0)
        error = difference / (tensor.abs().max().item() if tensor.numel() > 0 else 1)
        if not error < tolerance:
            shapes = [tuple(array.shape) for array in feeds.values()]
            raise SystemExit(f"{name}: ONNX Runtime is {error:.1e} from PyTorch at {shapes}")
    return feeds, results


def save_test_data(folder, feeds, results):
    data = folder / "test_data_set_0"
    data.mkdir()
    for kind, tensors in (("input", feeds), ("output", results)):
        for index, (name, array) in enumerate(tensors.items()):
            proto = numpy_helper.from_array(array, name)
            (data / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString(deterministic=True))


@torch.no_grad()
def make(entry, folder, tokens, embed):
    """Fills an empty folder."""
    torch.manual_seed(0)
    sample = entry.build(**entry.sizes)
    randomise_constants(sample.model)
    sample.model.eval()
    file = folder / "model.onnx"
    entry.way(sample, tokens, file, embed)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    if not sample.fixed:
        run_checked(session, sample, 3, tokens - 5, entry.tolerance)
    save_test_data(folder, *run_checked(session, sample, sample.rows, tokens, entry.tolerance))
