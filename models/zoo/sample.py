"""What a family's file tells of a model, and what the families share."""

from dataclasses import dataclass, field

import torch

COMMON = {"attn_implementation": "eager"}  # of every transformer's configuration

# Symbolic dimensions by position.
ROWS = {0: "batch"}
TOKENS = {0: "batch", 1: "sequence"}


@dataclass
class Sample:
    """A model, what it takes and what it gives, all by name."""

    model: torch.nn.Module
    inputs: dict  # what draws each: a function of the numbers of rows and tokens
    outputs: list
    dynamic: dict  # symbolic dimensions of every input and output
    dynamic_of: dict = field(default_factory=dict)  # of those that have others
    not_for_dynamo: tuple = ()  # inputs that its exporter is not given
    rows: int = 1  # of the test data
    fixed: bool = False  # whether the graph is for one number of rows
    tokens: int | None = None  # the one number that the graph is for, where it is not symbolic

    def dynamic_dimensions(self, name):
        return dict(self.dynamic_of.get(name, self.dynamic))

    def draw(self, names, rows, tokens):
        """Inputs, the same each time."""
        return tuple(self.inputs[name](rows, self.tokens or tokens) for name in names)


class Called(torch.nn.Module):
    """A model that takes its tensors by other names than the sample has them."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, **tensors):
        return self.call(self.model, **tensors)


class Wrapper(torch.nn.Module):
    """The sample as exporters take it: inputs by position, outputs as a tensor or a tuple."""

    def __init__(self, sample, inputs):
        super().__init__()
        self.model, self.inputs, self.outputs = sample.model, inputs, sample.outputs
        self.eval()

    def forward(self, *tensors):
        result = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        if isinstance(result, torch.Tensor | tuple):
            return result
        values = tuple(result[name] for name in self.outputs)
        return values if len(values) > 1 else values[0]


def seeded(more=0):
    return torch.Generator().manual_seed(7 + more)


def token_ids(vocabulary):
    return lambda rows, tokens: torch.randint(0, vocabulary, (rows, tokens), generator=seeded())


def noise(*shape):
    """Noise of that shape for each row."""
    return lambda rows, tokens: torch.randn(rows, *shape, generator=seeded())


def noise_for_tokens(width):
    return lambda rows, tokens: torch.randn(rows, tokens, width, generator=seeded())


def padded_end(rows, tokens):
    """A mask whose end is padding, so that one that is lost shows."""
    return (torch.arange(tokens) < tokens - tokens // 5).long().repeat(rows, 1)


def second_half(rows, tokens):
    return (torch.arange(tokens) >= tokens // 2).long().repeat(rows, 1)
