"""Sample models of models/tiny, in float32 and in half types."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from . import half_models, tensors
from .context import SOURCE
from .tensors import FLOAT

FOLDER = SOURCE / "models" / "tiny"


def names():
    """Models that are checked: one of each architecture that is timed, and simpler ones."""
    return [f"{architecture}-{exporter}" for architecture in ("bert", "gpt2", "llama", "mlp", "vit")
            for exporter in ("dynamo", "torchscript")]


def further_names():
    """All others but those whose graph depends on a value of an input, or ends in a tail."""
    others = {folder.name for folder in FOLDER.iterdir() if (folder / "model.onnx").exists()}
    return sorted(name for name in others - set(names())
                  if not name.startswith("detector-") and name != "t5-merged")


@dataclass(frozen=True)
class TinyModel:
    """A model in one type, its inputs, and the outputs that ONNX Runtime gave in float32."""

    name: str
    data_type: int
    file: Path
    inputs: dict
    input_options: list
    outputs: dict
    tolerance: float  # relative error

    def shapes(self):
        return {name: array.shape for name, array in self.inputs.items()}

    def error_of(self, folder):
        """The error of what `autopar run --output-dir` wrote."""
        return max(
            tensors.relative_error(expected, np.load(tensors.output_file(folder, name)))
            for name, expected in self.outputs.items()
        )


def load(name, data_type, work):
    """Half types allow twice the error that rounding every value to the type makes by itself: sums
    may be taken in another order."""
    data = FOLDER / name / "test_data_set_0"
    inputs = dict(map(tensors.read_proto, sorted(data.glob("input_*.pb"))))
    outputs = dict(map(tensors.read_proto, sorted(data.glob("output_*.pb"))))
    file = FOLDER / name / "model.onnx"
    tolerance = 1e-4
    folder = work / f"{name}-{tensors.NAMES[data_type]}"
    if data_type != FLOAT:
        model = onnx.load(file)
        halves = {key: tensors.rounded(array, data_type) if array.dtype == np.float32 else array
                  for key, array in inputs.items()}
        reference = half_models.run_reference(half_models.rounding(model, data_type), halves)
        tolerance = 2 * max(tensors.relative_error(outputs[key], reference[key]) for key in outputs)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "model.onnx"
        file.write_bytes(half_models.converted(model, data_type).SerializeToString())
    options = tensors.write_inputs(folder, inputs, data_type)
    return TinyModel(name, data_type, file, inputs, options, outputs, tolerance)
