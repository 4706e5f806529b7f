"""What other runtimes ask of a shard's collectives, node by node; and what the nodes do, in Python.

ONNX Runtime: the schemas of collective_defs.cc and the kernels of nccl_kernels.cc, as of 2024.
TensorRT: NVIDIA's page of DistCollective (versions 10.16 and 11 in common), with attributes as
Polygraphy's `multi-device shard` writes them.
"""

import threading

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

FLOATS = {TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
MOVED = FLOATS | {TensorProto.INT64, TensorProto.BOOL}
ONNX_RUNTIME = {"AllReduce": (FLOATS, set()), "AllGather": (MOVED, {"axis", "group_size"}),
                "AllToAll": (MOVED, {"group_size"})}  # fmt: skip
TENSORRT_TYPES = {TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.BFLOAT16}
TENSORRT_ATTRIBUTES = {
    "collective_operation": AttributeProto.STRING,
    "reduce_op": AttributeProto.STRING,
    "root": AttributeProto.INT,
    "nb_rank": AttributeProto.INT,
    "group_size": AttributeProto.INT,
    "groups": AttributeProto.INTS,
}
REDUCTIONS = {"sum", "prod", "max", "min", "avg"}
MOST_DIMENSIONS = 8


class Broken(Exception):
    """A rule that a node breaks."""


def demand(holds, node, rule):
    if not holds:
        raise Broken(f"{node.op_type} '{node.name}': {rule}")


def attributes_of(node):
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def tensors_of(graph):
    """Type and shape of every value that the graph tells."""
    infos = [*graph.input, *graph.output, *graph.value_info]
    told = {info.name: (info.type.tensor_type.elem_type,
                        [dim.dim_value for dim in info.type.tensor_type.shape.dim])
            for info in infos}  # fmt: skip
    told.update({each.name: (each.data_type, list(each.dims)) for each in graph.initializer})
    return told


def scaled(shape, dim, times):
    return [extent * times if d == dim else extent for d, extent in enumerate(shape)]


def check_arity(node):
    demand(len(node.input) == 1 and len(node.output) == 1, node, "one input and one output")


def check_onnx_runtime_node(node, tensors, ranks):
    check_arity(node)
    types, names = ONNX_RUNTIME[node.op_type]
    kind, shape = tensors[node.input[0]]
    made_kind, made = tensors[node.output[0]]
    attributes = attributes_of(node)
    demand(kind in types and made_kind == kind, node, f"a type of {types}")
    demand(set(attributes) == names, node, f"attributes {names}")
    demand(attributes.get("group_size", ranks) == ranks, node, "the group is the world")
    if node.op_type == "AllGather":
        axis = attributes["axis"]
        demand(0 <= axis < len(shape), node, "an axis of the tensor")
        demand(made == scaled(shape, axis, ranks), node, "the shares of all along the axis")
    else:
        demand(made == shape, node, "the shape stays")
    if node.op_type == "AllToAll":
        demand(shape and shape[0] % ranks == 0, node, "dimension 0 has equal parts")


def check_group(node, attributes, rank, ranks):
    size = attributes["nb_rank"]
    groups = list(attributes.get("groups", range(ranks)))
    demand(attributes["group_size"] == len(attributes.get("groups", ())), node,
           "group_size is the length of groups")  # fmt: skip
    demand(size == len(groups) > 1, node, "nb_rank ranks communicate")
    demand(groups == sorted(set(groups)), node, "ranks in order, each once")
    demand(rank in groups and 0 <= groups[0] and groups[-1] < ranks, node, "ranks of the world")
    return tuple(groups)


def check_tensorrt_node(node, tensors, rank, ranks):
    check_arity(node)
    demand(node.domain == "", node, "the default domain")
    attributes = attributes_of(node)
    for each in node.attribute:
        demand(TENSORRT_ATTRIBUTES.get(each.name) == each.type, node, f"no such {each.name}")
    demand(set(TENSORRT_ATTRIBUTES) - set(attributes) <= {"groups"}, node, "all attributes")
    operation = attributes["collective_operation"].decode()
    reduction = attributes["reduce_op"].decode()
    kind, shape = tensors[node.input[0]]
    made_kind, made = tensors[node.output[0]]
    demand(kind in TENSORRT_TYPES and made_kind == kind, node, "a type of TensorRT's and NCCL's")
    demand(1 <= len(shape) <= MOST_DIMENSIONS, node, f"1 to {MOST_DIMENSIONS} dimensions")
    demand(attributes["root"] == -1, node, "no root")
    group = check_group(node, attributes, rank, ranks)
    if operation == "all_gather":
        demand(reduction == "none", node, "no reduction")
        demand(made == scaled(shape, 0, len(group)), node, "the shares of all along dimension 0")
        return group
    demand(reduction in REDUCTIONS, node, f"a reduction of {REDUCTIONS}")
    if operation == "reduce_scatter":
        demand(scaled(made, 0, len(group)) == shape, node, "equal shares of dimension 0")
    else:
        demand(operation == "all_reduce", node, "an operation of both versions")
        demand(made == shape, node, "the shape stays")
    return group


def collectives_of(model, flavour):
    def is_collective(node):
        if flavour == "tensorrt":
            return node.op_type == "DistCollective"
        return node.domain == "com.microsoft" and node.op_type in ONNX_RUNTIME

    return [node for node in model.graph.node if is_collective(node)]


def check_order(model, nodes):
    """Each collective needs the one before: no order of nodes has them otherwise."""
    makers = {output: node for node in model.graph.node for output in node.output}
    for before, node in zip(nodes, nodes[1:], strict=False):
        seen, open_ = set(), list(node.input)
        while open_ and before.output[0] not in seen:
            name = open_.pop()
            if name not in seen and name in makers:
                open_ += makers[name].input
            seen.add(name)
        demand(before.output[0] in seen, node, f"it needs {before.name}")


def check_ranks(flavour, models):
    """Every node of all ranks' models. Returns how many collectives a rank has by operation."""
    ranks = len(models)
    calls = []  # by rank: what each group sees of it
    for rank, model in enumerate(models):
        tensors = tensors_of(model.graph)
        nodes = collectives_of(model, flavour)
        for node in model.graph.node:
            demand(node.domain not in ("autopar", "autopar.ops"), node, "no operator of autopar's")
        seen = []
        for node in nodes:
            group = tuple(range(ranks))
            if flavour == "tensorrt":
                group = check_tensorrt_node(node, tensors, rank, ranks)
            else:
                check_onnx_runtime_node(node, tensors, ranks)
            told = sorted(attributes_of(node).items(), key=lambda item: item[0])
            seen.append((group, node.op_type, str(told), str(tensors[node.input[0]])))
        if flavour == "onnxruntime":
            check_order(model, nodes)
        calls.append(seen)
    for a in range(ranks):
        for b in range(a):
            shared = [[call for call in calls[rank] if {a, b} <= set(call[0])] for rank in (a, b)]
            if shared[0] != shared[1]:
                raise Broken(f"ranks {a} and {b} have other collectives of their groups")
    used = {}
    for node in collectives_of(models[0], flavour):
        told = attributes_of(node).get("collective_operation", node.op_type.encode()).decode()
        used[told] = used.get(told, 0) + 1
    return used


def check_model(model):
    """By ONNX's own checker, which does not know DistCollective."""
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    for node in checked.graph.node:
        if node.op_type == "DistCollective":
            node.domain = "com.nvidia"
    checked.opset_import.add(domain="com.nvidia", version=1)
    onnx.checker.check_model(checked)


class World:
    """Threads that exchange tensors, each group a call at a time."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.lock = threading.Condition()
        self.sent, self.counts = {}, [dict() for _ in range(ranks)]

    def exchange(self, rank, group, tensor):
        """What each rank of the group gives its call of the same number, in order."""
        with self.lock:
            number = self.counts[rank][group] = self.counts[rank].get(group, 0) + 1
            self.sent[group, number, rank] = np.array(tensor)
            self.lock.notify_all()
            keys = [(group, number, other) for other in group]
            if not self.lock.wait_for(lambda: all(key in self.sent for key in keys), timeout=60):
                raise TimeoutError(f"rank {rank} waits for others of {group}")
            return [self.sent[key] for key in keys]

    def run(self, models, inputs_by_rank):
        """Every rank's outputs by ONNX's reference implementation."""
        results = [None] * self.ranks

        def work(rank):
            try:
                session = ReferenceEvaluator(models[rank], new_ops=operators(self, rank))
                results[rank] = session.run(None, inputs_by_rank[rank])
            except Exception as error:  # noqa: BLE001
                results[rank] = error

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


def operators(world, rank):
    everyone = tuple(range(world.ranks))
    by_name = {"sum": sum, "max": lambda all_: np.max(all_, 0), "min": lambda all_: np.min(all_, 0),
               "avg": lambda all_: np.mean(all_, 0).astype(all_[0].dtype)}  # fmt: skip

    class AllReduce(OpRun):
        op_domain = "com.microsoft"

        def _run(self, x):
            return (np.asarray(sum(world.exchange(rank, everyone, x))),)

    class AllGather(OpRun):
        op_domain = "com.microsoft"

        def _run(self, x, axis=None, group_size=None):
            return (np.concatenate(world.exchange(rank, everyone, x), axis),)

    class AllToAll(OpRun):
        op_domain = "com.microsoft"

        def _run(self, x, group_size=None):
            sent = world.exchange(rank, everyone, x)
            return (np.concatenate([np.split(each, group_size)[rank] for each in sent]),)

    class DistCollective(OpRun):
        op_domain = ""

        def _run(self, x, collective_operation=None, reduce_op=None, root=None, nb_rank=None,
                 group_size=None, groups=None):  # fmt: skip
            group = tuple(groups) if group_size else everyone
            sent = world.exchange(rank, group, x)
            if collective_operation == "all_gather":
                return (np.concatenate(sent),)
            reduced = np.asarray(by_name[reduce_op](sent))
            if collective_operation == "all_reduce":
                return (reduced,)
            return (np.split(reduced, nb_rank)[group.index(rank)],)

    return [AllReduce, AllGather, AllToAll, DistCollective]
