"""Models as ONNX Runtime's tools write them: quantised, fused, and by its generative models' builder."""

import contextlib
import io
import logging
import tempfile
from pathlib import Path

import onnx
import onnx_ir
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer
from onnxruntime_genai.models.builders.llama import LlamaModel

from .exporters import dynamo, torchscript

BLOCK = 32  # weights that share a scale
FOUR_BITS = 16  # values


def write(model, file):
    file.write_bytes(model.SerializeToString(deterministic=True))


@contextlib.contextmanager
def exported(exporter, sample, tokens):
    """The file of an exporter, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        exporter(sample, tokens, file)
        yield file


class Examples(CalibrationDataReader):
    """What activations' ranges are told from."""

    def __init__(self, file, sample, tokens):
        names = [port.name for port in onnx.load(file).graph.input]
        self.feeds = iter([
            {name: tensor.numpy() for name, tensor in zip(names, sample.draw(names, rows, tokens))}
            for rows in (1, 3)])

    def get_next(self):
        return next(self.feeds, None)


def static_int8(sample, tokens, file, embed=True):
    """QDQ: weights and activations in 8 bits, the latter's ranges told from examples. Not of Add: an
    attention mask with the least float in it leaves no bits for scores."""
    with exported(dynamo, sample, tokens) as original:
        quantize_static(original, file, Examples(original, sample, tokens), per_channel=True,
                        op_types_to_quantize=["Conv", "Gather", "Gemm", "MatMul"])
    write(onnx.load(file), file)


def dynamic_int8(sample, tokens, file, embed=True):
    """Activations' ranges are those of each run."""
    with exported(torchscript, sample, tokens) as original:
        quantize_dynamic(original, file)
    write(onnx.load(file), file)


def round_to_four_bits(model):
    """Every linear layer's weights on the grid that the quantiser would put them on, in blocks along
    the inputs: it loses nothing then, and PyTorch must agree."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            for block in layer.weight.data.split(BLOCK, dim=1):
                least = block.amin(1, keepdim=True).clamp(max=0)
                most = block.amax(1, keepdim=True).clamp(min=0)
                scale = (most - least) / (FOUR_BITS - 1)
                zero = (-least / scale).round()
                block.copy_(((block / scale).round().clamp(-zero, FOUR_BITS - 1 - zero)) * scale)


def in_four_bits(model):
    """MatMulNBits in the place of MatMul."""
    quantiser = MatMulNBitsQuantizer(model, bits=4, block_size=BLOCK, is_symmetric=False)
    quantiser.process()
    return quantiser.model.model


def four_bits(sample, tokens, file, embed=True):
    round_to_four_bits(sample.model)
    with exported(dynamo, sample, tokens) as original:
        write(in_four_bits(onnx.load(original)), file)


def fused(kind):
    """ONNX Runtime's optimizer of transformers, which writes attention and its like as one node."""

    def way(sample, tokens, file, embed=True):
        config = sample.model.config
        with exported(torchscript, sample, tokens) as original:
            better = optimizer.optimize_model(
                str(original), kind, config.num_attention_heads, config.hidden_size, opt_level=0)
        better.save_model_to_file(str(file))
        write(onnx.load(file), file)

    return way


def offline(sample, tokens, file, embed=True):
    """What ONNX Runtime writes of the graph that it runs, without what only one machine can run."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(file)
    with exported(torchscript, sample, tokens) as original:
        onnxruntime.InferenceSession(original, options, providers=["CPUExecutionProvider"])
    write(onnx.load(file), file)


class Builder(LlamaModel):
    """ONNX Runtime's builder of generative models, on a model in memory."""

    def __init__(self, step):
        config = step.config
        config.architectures = [type(step.model).__name__]
        config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 0
        self.step = step
        kind = onnx_ir.DataType.FLOAT
        super().__init__(config, kind, kind, "cpu", tempfile.gettempdir(), {"hf_token": False})

    def load_weights(self, input_path):
        return self.step.model

    def proto(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.make_model("")
        self.model.graph.sort()
        return onnx_ir.to_proto(self.model)

    def write_config(self, folder):
        """genai_config.json, with which onnxruntime-genai runs the model. No hub has it."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.make_genai_config(self.step.config, {}, folder)


class MultiHeadBuilder(Builder):
    """Writes what devices without GroupQueryAttention get."""

    def is_gqa_supported(self):
        return False

    def is_packed_attn_supported(self):
        return False


def build(builder, file, rewrite=lambda model: model):
    write(rewrite(builder.proto()), file)
    builder.write_config(file.parent)


def grouped_attention(sample, tokens, file, embed=True):
    build(Builder(sample.model), file)


def grouped_attention_four_bits(sample, tokens, file, embed=True):
    round_to_four_bits(sample.model)
    build(Builder(sample.model), file, in_four_bits)


def multi_head_attention(sample, tokens, file, embed=True):
    build(MultiHeadBuilder(sample.model), file)


logging.disable(logging.WARNING)  # ONNX Runtime's tools turn all of it on
