"""A float32 ONNX model in a half type, and what rounding alone does to its output."""

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from .tensors import BFLOAT16, FLOAT, FLOAT16, rounded, tensor_proto

IN_SCHEMA = {FLOAT: "tensor(float)", FLOAT16: "tensor(float16)", BFLOAT16: "tensor(bfloat16)"}


def float_values(model):
    """Names of all float32 values of the model, as ONNX Runtime tells them: it knows operators of its
    own, which ONNX's inference does not."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    graph = every.graph
    known = {output.name for output in graph.output}
    made = (name for node in graph.node for name in node.output if name and name not in known)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    session = start_session(every)
    names = {init.name for init in graph.initializer if init.data_type == FLOAT}
    return names | {port.name for port in (*session.get_inputs(), *session.get_outputs())
                    if port.type == IN_SCHEMA[FLOAT]}


def opset_of(model, domain):
    return next(entry.version for entry in model.opset_import if entry.domain == domain)


def takes(node, opset, half):
    """Whether the operator, as of the opset, is defined on a half type where it is on float32."""
    if node.op_type in ("Cast", "Constant", "ConstantOfShape"):
        return True  # their type is an attribute
    if not onnx.defs.has(node.op_type, opset, node.domain):
        return True  # ONNX Runtime's own do
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    if any(port.type_str == IN_SCHEMA[FLOAT] for port in (*schema.inputs, *schema.outputs)):
        return False
    return all(
        IN_SCHEMA[half] in constraint.allowed_type_strs
        for constraint in schema.type_constraints
        if IN_SCHEMA[FLOAT] in constraint.allowed_type_strs
    )


def in_half(tensor, half):
    if tensor.data_type != FLOAT:
        return tensor
    return tensor_proto(tensor.name, numpy_helper.to_array(tensor), half)


def convert_attributes(node, half):
    """What float32 a node makes of nothing but attributes becomes half."""
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
            attribute.i = half
        elif attribute.name in ("value_float", "value_floats"):
            is_scalar = attribute.name == "value_float"
            array = np.array(attribute.f if is_scalar else list(attribute.floats), np.float32)
            attribute.CopyFrom(helper.make_attribute("value", tensor_proto("", array, half)))
        elif attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(in_half(attribute.t, half))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        zero = tensor_proto("", np.zeros(1, np.float32), half)
        node.attribute.append(helper.make_attribute("value", zero))


def between_casts(node, floats, half):
    """A node that stays in float32, and the casts around it."""
    before, after = [], []
    for index, name in enumerate(node.input):
        if name in floats:
            node.input[index] = f"{name}/float32/{node.output[0]}"
            before.append(helper.make_node("Cast", [name], [node.input[index]], to=FLOAT))
    for index, name in enumerate(node.output):
        if name in floats:
            node.output[index] = f"{name}/float32"
            after.append(helper.make_node("Cast", [node.output[index]], [name], to=half))
    return [*before, node, *after]


def converted(model, half):
    """The model with every float32 value in a half type. An operator that ONNX does not define on
    the type computes in float32, between casts."""
    floats = float_values(model)
    opset = opset_of(model, "")
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    nodes = []
    for node in graph.node:
        convert_attributes(node, half)
        nodes += [node] if takes(node, opset, half) else between_casts(node, floats, half)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    weights = [in_half(weight, half) for weight in graph.initializer]
    for repeated, new in ((graph.node, nodes), (graph.initializer, weights), (graph.value_info, [])):
        del repeated[:]
        repeated.extend(new)
    for port in (*graph.input, *graph.output):
        if port.type.tensor_type.elem_type == FLOAT:
            port.type.tensor_type.elem_type = half
    return result


def rounding(model, half):
    """The float32 model with each of its values rounded to a half type: what the type itself costs."""
    floats = float_values(model)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for weight in graph.initializer:
        if weight.data_type == FLOAT:
            values = rounded(numpy_helper.to_array(weight), half)
            weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    nodes = []
    for node in list(graph.node):
        made = [(index, name) for index, name in enumerate(node.output) if name in floats]
        for index, name in made:
            node.output[index] = f"{name}/exact"
        nodes.append(node)
        for _, name in made:
            nodes += [helper.make_node("Cast", [f"{name}/exact"], [f"{name}/half"], to=half),
                      helper.make_node("Cast", [f"{name}/half"], [name], to=FLOAT)]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    for repeated, new in ((graph.node, nodes), (graph.value_info, [])):
        del repeated[:]
        repeated.extend(new)
    return result


def start_session(model):
    """Without fusions, which would take roundings out."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_reference(model, inputs):
    """ONNX Runtime's outputs by name."""
    session = start_session(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))
