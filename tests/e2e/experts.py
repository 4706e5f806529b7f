"""Experts' plans as pins for --strategy, told by the model's structure.

What a pin leaves open, the search chooses: a plan so completed costs at most what the expert's does.
"""

import onnx

from megatron import is_part_of, megatron_pins, rank_of

WITH_WEIGHTS = ("MatMul", "Gemm", "Conv")


def whole(spec):
    return "R" * rank_of(spec) or "."


def batch_split(spec, axes):
    return f"S{axes}" + "R" * (rank_of(spec) - 1)


def is_operator(entry):
    return "inputs" in entry


def nodes_with_weights(model_file):
    """The names of the products whose second operand comes from weights alone."""
    graph = onnx.load(model_file, load_external_data=False).graph
    constant = {tensor.name for tensor in graph.initializer} | {""}
    names = []
    for node in graph.node:
        if all(name in constant for name in node.input):
            constant.update(node.output)
        elif node.op_type in WITH_WEIGHTS and node.input[1] in constant:
            names.append(node.name)
    return names


def replicated_pins(plan):
    """Every operator and every tensor whole on each rank."""
    pins = []
    for entry in plan["operators"]:
        pin = {"name": entry["name"], "outputs": [whole(spec) for spec in entry["outputs"]]}
        if is_operator(entry):
            pin["inputs"] = [whole(spec) for spec in entry["inputs"]]
            pin["reductions"] = ["none"] * len(entry["outputs"])
        pins.append(pin)
    return pins


def batch_pins(model_file, plan, axes):
    """The batch, the first dimension, split over the axes wherever weights are used; these whole."""
    names = nodes_with_weights(model_file)
    pins = []
    for entry in plan["operators"]:
        if is_operator(entry) and is_part_of(entry["name"], names):
            first, *weights = entry["inputs"]
            pins.append({
                "name": entry["name"],
                "inputs": [batch_split(first, axes), *map(whole, weights)],
                "outputs": [batch_split(entry["outputs"][0], axes)],
                "reductions": ["none"],
            })
    return pins


def data_parallel_pins(model_file, plan, axes):
    """The batch split, every weight whole on each rank."""
    inputs = {value.name for value in onnx.load(model_file, load_external_data=False).graph.input}
    weights = [
        {"name": entry["name"], "outputs": [whole(entry["outputs"][0])]}
        for entry in plan["operators"]
        if not is_operator(entry) and entry["name"] not in inputs
    ]
    return weights + batch_pins(model_file, plan, axes)


def expert_pins(model_file, plan):
    """Pins of each expert plan, by name, on the mesh of `plan`, any plan of the model."""
    axes = "".join(str(axis) for axis in range(len(plan["mesh"])))
    pins = {
        "replicated": replicated_pins(plan),
        "data parallel": data_parallel_pins(model_file, plan, axes),
        "ZeRO": batch_pins(model_file, plan, axes),
        "Megatron": megatron_pins(model_file, plan, axes)[0],
    }
    if len(axes) == 2:
        pins["Megatron and data parallel"] = megatron_pins(model_file, plan, "1", "0")[0]
    return {name: each for name, each in pins.items() if each}
