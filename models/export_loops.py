#!/usr/bin/env python3
"""Exports modules with loops and sequences to models/loops, by PyTorch's TorchScript exporter: each
with some inputs of the shapes that it is exported for (NAME.npz, keys CASE/INPUT)."""

from pathlib import Path

import numpy as np
import torch

OUT = Path(__file__).parent / "loops"


class Fixpoint(torch.nn.Module):
    """A while loop that a value ends."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(24, 24)

    def forward(self, x):
        rounds = 0
        while bool(x.abs().max() > 0.05) and rounds < 50:
            x = torch.tanh(self.layer(x)) * 0.8
            rounds += 1
        return x


class Cell(torch.nn.Module):
    """An LSTM's cell, as many steps as an input says."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.LSTMCell(8, 16)

    def forward(self, x, h, c, n: torch.Tensor):
        for i in range(int(n)):
            h, c = self.cell(x[i], (h, c))
        return h, c


class Greedy(torch.nn.Module):
    """Decodes into a buffer of ids until the end symbol or the buffer's end."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(32, 16)
        self.head = torch.nn.Linear(16, 32)

    def forward(self, ids, length: torch.Tensor):
        at = int(length)
        goes_on = True
        while goes_on and at < ids.size(1):
            filled = (torch.arange(ids.size(1)) < at).float()
            hidden = (self.table(ids) * filled[None, :, None]).sum(1)
            chosen = self.head(torch.sin(3 * hidden)).argmax(-1)
            here = torch.arange(ids.size(1)) == at
            ids = torch.where(here[None], chosen[:, None], ids)
            at += 1
            goes_on = bool((chosen != 3).any())
        return ids


class Bag(torch.nn.Module):
    """An EmbeddingBag, which the exporter writes as a Loop over bags."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(40, 8, mode="sum")

    def forward(self, ids):
        return self.table(ids)


class Pieces(torch.nn.Module):
    """split, chunk and unbind: sequences."""

    def forward(self, x):
        split, chunk, rows = torch.split(x, 3, 1), torch.chunk(x, 4, 0), torch.unbind(x, 1)
        return split[-1] * 2, chunk[0] + 1, torch.stack([rows[1], rows[-1]], 0)


class Append(torch.nn.Module):
    """A list that a loop of known length appends to."""

    def forward(self, x):
        made = []
        for i in range(x.size(0)):
            made.append(torch.tanh(x[i]) * i)
        return torch.stack(made), torch.cat(made, 0)


def ids(*shape):
    return torch.randint(4, 32, shape)


torch.manual_seed(1)
CASES = {
    "fixpoint": (Fixpoint, ["x"], [[scale * torch.randn(3, 24)] for scale in (0.01, 1, 9)]),
    "cell": (
        Cell,
        ["x", "h", "c", "n"],
        [[torch.randn(5, 2, 8), *torch.randn(2, 2, 16), torch.tensor(n)] for n in (4, 0, 1, 5)],
    ),
    "greedy": (
        Greedy,
        ["ids", "length"],
        [[ids(1, 24), torch.tensor(length)] for length in (3, 1, 23, 24, 7)],
    ),
    "bag": (Bag, ["ids"], [[ids(3, 5)]]),
    "pieces": (Pieces, ["x"], [[torch.randn(8, 10)]]),
    "append": (Append, ["x"], [[torch.randn(4, 6)]]),
}


def main():
    OUT.mkdir(exist_ok=True)
    for name, (module, names, cases) in CASES.items():
        model = module().eval()
        if name != "bag":
            model = torch.jit.script(model)
        file = OUT / f"{name}.onnx"
        torch.onnx.export(
            model, tuple(cases[0]), file, input_names=names, opset_version=18, dynamo=False
        )
        arrays = {
            f"{case}/{key}": value.numpy()
            for case, values in enumerate(cases)
            for key, value in zip(names, values, strict=True)
        }
        np.savez(OUT / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main()
