"""Linear layers alone."""

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper

from .sample import ROWS, Sample, noise


class MLP(torch.nn.Sequential):
    """Three linear layers."""

    def __init__(self, width, hidden):
        super().__init__(
            torch.nn.Linear(width, hidden), torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
            torch.nn.Linear(hidden, width),
        )

    def forward(self, x):
        return super().forward(x)


def mlp(width, hidden):
    # rows are all that it has to split beside its weights
    return Sample(MLP(width, hidden), inputs={"x": noise(width)}, outputs=["y"], dynamic=ROWS, rows=5)


def make_large_mlp(out, layers=32, width=8192):
    """8 GB of weights, never in memory: the data file is random blocks, one after another."""
    out.mkdir(parents=True, exist_ok=True)
    size = width * width * 4
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    with open(out / "model.data", "wb") as data:
        for layer in range(layers):
            weight = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width],
                                 data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "model.data"), ("offset", layer * size), ("length", size)):
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            for _ in range(width // 1024):
                block = generator.standard_normal((1024, width), dtype=np.float32)
                data.write(block / np.sqrt(width, dtype=np.float32))
            nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"p{layer}"], f"mm{layer}"))
            nodes.append(helper.make_node("Relu", [f"p{layer}"], [f"h{layer + 1}"], f"relu{layer}"))
    shape = ["batch", width]
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, shape)], weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (out / "model.onnx").write_bytes(model.SerializeToString())
    test_data = out / "test_data_set_0"
    test_data.mkdir(exist_ok=True)
    x = numpy_helper.from_array(generator.standard_normal((4, width), dtype=np.float32), "h0")
    (test_data / "input_0.pb").write_bytes(x.SerializeToString())
