"""Collectives and messages, each as ONNX files of all ranks, with what NumPy says that they give.

Values are small whole numbers: exact in every type, in whatever order they are added up.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from . import tensors

DOMAIN = "autopar"
TYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32, "uint32": TensorProto.UINT32, "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
}
FLOATS = ("float32", "float64", "float16", "bfloat16")
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}
SIZES = (1, 1000, 1 << 20)
FEW = 40  # elements, of cases about shapes


@dataclass(frozen=True)
class Node:
    """One rank's part: its input, or None where it only receives, and its output, or None where it
    only sends."""

    op_type: str
    attributes: dict
    given: np.ndarray
    expected: np.ndarray


@dataclass(frozen=True)
class Case:
    name: str
    type_name: str
    nodes: list  # by rank: a list of Nodes

    def write(self, folder):
        """A file a rank, and its inputs."""
        folder.mkdir(parents=True)
        data_type = TYPES[self.type_name]
        for rank, nodes in enumerate(self.nodes):
            protos, inputs, outputs = [], [], []
            for index, node in enumerate(nodes):
                x, y = f"x{index}", f"y{index}"
                if node.given is not None:
                    inputs.append(helper.make_tensor_value_info(x, data_type, node.given.shape))
                    write_input(folder / f"rank{rank}.{x}", x, node.given, self.type_name)
                if node.expected is not None:
                    outputs.append(helper.make_tensor_value_info(y, data_type, node.expected.shape))
                protos.append(helper.make_node(
                    node.op_type, [x] * (node.given is not None), [y] * (node.expected is not None),
                    f"{node.op_type} {index}", domain=DOMAIN, **node.attributes))
            graph = helper.make_graph(protos, self.name, inputs, outputs)
            opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
            (folder / f"rank{rank}.onnx").write_bytes(model.SerializeToString())

    def faults(self, folder):
        """Where outputs of the first run, step by step, or of the last are not as expected."""
        return [f"rank {rank}, {run} run" for run in ("first", "last")
                for rank, nodes in enumerate(self.nodes) for index, node in enumerate(nodes)
                if node.expected is not None
                and not is_equal(node.expected, folder / run / f"rank{rank}.y{index}.npy")]


def write_input(file, name, array, type_name):
    if type_name == "bfloat16":
        proto = tensors.tensor_proto(name, array.astype(np.float32), TensorProto.BFLOAT16)
        file.with_name(f"{file.name}.pb").write_bytes(proto.SerializeToString())
    else:
        np.save(f"{file}.npy", array.astype(type_name))


def is_equal(expected, file):
    if not file.exists():
        return False
    actual = np.load(file)
    return actual.shape == expected.shape and np.array_equal(
        actual.astype(np.float64), expected.astype(np.float64))


def tensor_of(rank, shape):
    """Up to 12, other numbers on every rank for most elements."""
    i = np.arange(int(np.prod(shape)))
    return ((rank * 5 + i * 3 + i // 7) % 13).reshape(shape)


def bounds(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


def share(array, sizes, place, dim):
    begin, end = bounds(sizes)[place:place + 2]
    return np.take(array, np.arange(begin, end), axis=dim)


def uneven(ranks, least=1):
    return [least + 2 * place for place in range(ranks)]


def on_groups(ranks, groups, make):
    """A list of one node a rank; `make(group, place)` is the node of a group's member."""
    nodes = [None] * ranks
    for group in groups:
        for place, rank in enumerate(group):
            nodes[rank] = [make(group, place)]
    return nodes


class Cases:
    """Over groups of a world's ranks, which lie along mesh axes."""

    def __init__(self, ranks, groups, mesh_axes):
        self.ranks, self.groups, self.mesh_axes = ranks, groups, mesh_axes
        self.members = len(groups[0])

    def case(self, what, type_name, make):
        return Case(f"{what}, {type_name}", type_name, on_groups(self.ranks, self.groups, make))

    def place_in(self, group, place):
        return {"ranks": group, "rank": place, "mesh_axes": self.mesh_axes}

    def all_reduce(self, type_name, shape, reduction="sum"):
        def make(group, place):
            every = np.stack([tensor_of(rank, shape) for rank in group])
            return Node("AllReduce", {**self.place_in(group, place), "reduce": reduction}, every[place],
                        REDUCTIONS[reduction](every, axis=0))

        return self.case(f"all-reduce {reduction} of {shape_text(shape)}", type_name, make)

    def all_gather(self, type_name, shape, dim, sizes):
        def make(group, place):
            parts = [tensor_of(rank, with_extent(shape, dim, size))
                     for rank, size in zip(group, sizes)]
            return Node("AllGather", {**self.place_in(group, place), "dim": dim, "sizes": sizes},
                        parts[place], np.concatenate(parts, dim))

        return self.case(f"all-gather {shape_text(shape)} in {dim} by {sizes}", type_name, make)

    def reduce_scatter(self, type_name, shape, dim, sizes, reduction="sum"):
        def make(group, place):
            every = np.stack([tensor_of(rank, with_extent(shape, dim, sum(sizes)))
                              for rank in group])
            reduced = REDUCTIONS[reduction](every, axis=0)
            return Node("ReduceScatter", {**self.place_in(group, place), "reduce": reduction, "dim": dim,
                                          "sizes": sizes},
                        every[place], share(reduced, sizes, place, dim))

        return self.case(f"reduce-scatter {reduction} of {shape_text(shape)} in {dim} by {sizes}",
                         type_name, make)

    def all_to_all(self, type_name, shape, split_dim, concat_dim, split_sizes, concat_sizes):
        def make(group, place):
            parts = [tensor_of(rank, with_extent(with_extent(shape, split_dim, sum(split_sizes)),
                                                 concat_dim, size))
                     for rank, size in zip(group, concat_sizes)]
            received = [share(part, split_sizes, place, split_dim) for part in parts]
            attributes = {"split_dim": split_dim, "concat_dim": concat_dim,
                          "split_sizes": split_sizes, "concat_sizes": concat_sizes}
            return Node("AllToAll", {**self.place_in(group, place), **attributes}, parts[place],
                        np.concatenate(received, concat_dim))

        return self.case(f"all-to-all {shape_text(shape)} from {split_dim} by {split_sizes} to "
                         f"{concat_dim} by {concat_sizes}", type_name, make)

    def broadcast(self, type_name, shape, root):
        def make(group, place):
            return Node("Broadcast", {**self.place_in(group, place), "root": root},
                        tensor_of(group[place], shape), tensor_of(group[root], shape))

        return self.case(f"broadcast of {shape_text(shape)} from {root}", type_name, make)

    def every_type(self):
        """Each operation by itself in every type that it has, of one size."""
        n = self.members
        for name in TYPES:
            for reduction in ("sum", "max", "min", *(["mean"] if name in FLOATS else [])):
                yield self.all_reduce(name, (5, 8), reduction)
                yield self.reduce_scatter(name, (5, n), 1, [2] * n, reduction)
            yield self.all_gather(name, (5, n), 0, [3] * n)
            yield self.all_to_all(name, (n, n), 0, 1, [2] * n, [3] * n)
            yield self.broadcast(name, (FEW,), n - 1)

    def every_size(self):
        """Each operation in several sizes, along every dimension, in equal and unequal shares."""
        n = self.members
        for size in SIZES:
            yield self.all_reduce("float32", (size,))
            yield self.broadcast("float32", (size,), 0)
            for name in ("float32", "bfloat16"):
                yield self.all_gather(name, (1,), 0, [size] * n)
                yield self.reduce_scatter(name, (1,), 0, [size] * n)
            yield self.all_to_all("float32", (1, n), 1, 0, [1] * n, [size] * n)
        for sizes in ([2] * n, uneven(n), uneven(n, least=0)):
            for dim in (0, 1, 2):
                yield self.all_gather("float32", (2, 3, 4), dim, sizes)
                yield self.reduce_scatter("float32", (2, 3, 4), dim, sizes)
            for split_dim, concat_dim in ((0, 1), (1, 0), (2, 0), (1, 2)):
                yield self.all_to_all("float32", (2, 3, 4), split_dim, concat_dim, sizes, sizes)


def with_extent(shape, dim, extent):
    return (*shape[:dim], extent, *shape[dim + 1:])


def shape_text(shape):
    return "x".join(map(str, shape))


def together(cases):
    """What is ready at once in one graph: the runtime may make one call of it."""
    cases = list(cases)
    nodes = [[node for case in cases for node in case.nodes[rank]]
             for rank in range(len(cases[0].nodes))]
    return Case("together: " + "; ".join(case.name for case in cases), cases[0].type_name, nodes)


def of_world(ranks):
    cases = Cases(ranks, [list(range(ranks))], [0])
    yield from cases.every_type()
    yield from cases.every_size()
    yield together([cases.all_reduce("float32", (7,)), cases.all_gather("float32", (1, 3), 0, [2] * ranks),
                    cases.broadcast("float32", (9,), ranks - 1)])


def of_two_axes():
    """On a 2x2 mesh: along each axis by itself, and along both at once."""
    by_axis = [Cases(4, [[0, 2], [1, 3]], [0]), Cases(4, [[0, 1], [2, 3]], [1])]
    for cases in by_axis:
        yield cases.all_reduce("float32", (1000,))
        yield cases.all_gather("float16", (2, 3), 1, [3, 1])
        yield cases.reduce_scatter("bfloat16", (3, 2), 1, [2, 3])
        yield cases.all_to_all("float32", (2, 2), 0, 1, [3, 1], [2, 2])
        yield cases.broadcast("int64", (FEW,), 1)
    yield together([by_axis[0].all_reduce("float32", (FEW,)),
                    by_axis[1].all_gather("float32", (2, 3), 1, [3, 3])])


def message(ranks, type_name, row):
    """The first half of the ranks sends, the second receives: each gets two rows of every sender's
    tensor and one more than the receiver before it."""
    senders, receivers = range(ranks // 2), range(ranks // 2, ranks)
    sizes = [2 + place for place in range(len(receivers))]
    edges = bounds(sizes)
    nodes = []
    for rank in senders:
        starts = [edge for begin in edges[:-1] for edge in (begin, 0)]
        ends = [edge for end in edges[1:] for edge in (end, row)]
        nodes.append([Node("Send", {"rank": rank, "peers": list(receivers),
                                    "starts": list(map(int, starts)), "ends": list(map(int, ends))},
                           tensor_of(rank, (int(edges[-1]), row)), None)])
    for place, receiver in enumerate(receivers):
        parts = [share(tensor_of(rank, (int(edges[-1]), row)), sizes, place, 0)
                 for rank in senders]
        size = sizes[place]
        starts = [edge for sender in senders for edge in (sender * size, 0)]
        ends = [edge for sender in senders for edge in ((sender + 1) * size, row)]
        expected = np.concatenate(parts)
        nodes.append([Node("Recv", {"rank": receiver, "peers": list(senders), "starts": starts,
                                    "ends": ends, "shape": expected.shape, "dtype": int(TYPES[type_name])},
                           None, expected)])
    return Case(f"messages of rows of {row}, {type_name}", type_name, nodes)


def of_stages(ranks):
    for type_name in TYPES:
        yield message(ranks, type_name, 8)
    for row in (1, 1 << 16):
        yield message(ranks, "float32", row)
