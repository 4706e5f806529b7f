"""Cases of single operators drawn at random: what is drawn, the model of one node that it makes,
and the test folder of ONNX's own form that says what ONNX Runtime answers."""

import json
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from support import ADDS_BYTES_EXACTLY, with_exact_sums

ONNX, MICROSOFT, ML = "", "com.microsoft", "ai.onnx.ml"
# Relative and absolute, of each element.
TOLERANCES = {
    np.dtype(np.float16): (2e-2, 5e-3),
    np.dtype(np.float32): (1e-4, 2e-5),
    np.dtype(np.float64): (1e-9, 1e-9),
}


class Refused(Exception):
    """ONNX Runtime has no answer."""


class Draw:
    """Random choices, the same in every run."""

    def __init__(self, operator, seed=18):
        self.random = np.random.default_rng([seed, zlib.crc32(operator.encode())])

    def integer(self, low, high):
        """Both ends included."""
        return int(self.random.integers(low, high, endpoint=True))

    def choice(self, *options):
        return options[self.integer(0, len(options) - 1)]

    def chance(self, probability=0.5):
        return bool(self.random.random() < probability)

    def shape(self, least, most, extent=6):
        """A shape of a rank between the first two; an extent of 1 is likelier than others."""
        rank = self.integer(least, most)
        return tuple(1 if self.chance(0.15) else self.integer(1, extent) for _ in range(rank))

    def floats(self, *shape, scale=1.0, kind=np.float32):
        return np.asarray(self.random.standard_normal(shape) * scale, kind)

    def positive(self, *shape, low=0.02, high=0.3, kind=np.float32):
        return np.asarray(self.random.uniform(low, high, shape), kind)

    def integers(self, low, high, *shape, kind=np.int64):
        return np.asarray(self.random.integers(low, high, shape, endpoint=True), kind)

    def whole_range(self, *shape, kind=np.uint8):
        info = np.iinfo(kind)
        return self.integers(info.min, info.max, *shape, kind=kind)

    def weights(self, *shape, kind):
        """Bytes of a weight, of 7 bits where ONNX Runtime's operators of com.microsoft add pairs of products up in 16
        bits, which saturate."""
        if kind == np.int8 and not ADDS_BYTES_EXACTLY:
            return self.integers(-64, 63, *shape, kind=kind)
        return self.whole_range(*shape, kind=kind)

    def broadcast(self, shape):
        """A shape that broadcasts to this one: dimensions of 1, and the first ones left out."""
        kept = [1 if self.chance(0.25) else extent for extent in shape]
        return tuple(kept[self.integer(0, len(kept)) if self.chance(0.3) else 0 :])

    def optional(self, array, probability=0.5):
        return array if self.chance(probability) else None

    def some(self, **attributes):
        """Each attribute is given or left out."""
        return {name: value for name, value in attributes.items() if self.chance(0.7)}


@dataclass
class Case:
    """A node. `inputs` maps names to arrays, None where one is left out; those in `fixed` are
    initializers, those in `maybe_fixed` sometimes, as exporters have both. `counts` has for an
    output which of its elements say anything, `kinds` its type if it is not the first input's. Where ONNX Runtime has no kernel for CPUs, `expected`
    is there; where it lacks a form alone, `same_as` has inputs in another form, and
    `same_attributes` the attributes for it, which say the same."""

    inputs: dict
    outputs: list
    attributes: dict = field(default_factory=dict)
    fixed: tuple = ()
    maybe_fixed: tuple = ()
    counts: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)
    expected: dict | None = None
    same_as: dict | None = None
    same_attributes: dict | None = None
    tolerance: tuple | None = None
    ml_opset: int = 3


def tensor_info(name, array):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def without_trailing_blanks(names):
    while names and not names[-1]:
        names.pop()
    return names


def make_model(domain, op_type, case, draw):
    """A model whose outputs are those of the node, with zeros where an element does not count."""
    given = {name: array for name, array in case.inputs.items() if array is not None}
    fixed = [n for n in given if n in case.fixed or (n in case.maybe_fixed and draw.chance())]
    node = helper.make_node(
        op_type,
        without_trailing_blanks([name if name in given else "" for name in case.inputs]),
        without_trailing_blanks(
            [f"made_{n}" if n in case.counts else n or "" for n in case.outputs]
        ),
        name="the_node",
        domain=domain,
        **case.attributes,
    )
    nodes = [node]
    initializers = [numpy_helper.from_array(given[name], name) for name in fixed]
    feeds = {name: array for name, array in given.items() if name not in fixed}
    for name, counts in case.counts.items():
        feeds[f"counts_{name}"] = counts
        zero = np.zeros((), case.kinds.get(name, draw_kind(case)))
        initializers.append(numpy_helper.from_array(zero, f"zero_{name}"))
        nodes.append(
            helper.make_node("Where", [f"counts_{name}", f"made_{name}", f"zero_{name}"], [name])
        )
    graph = helper.make_graph(
        nodes,
        "drawn",
        [tensor_info(name, array) for name, array in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in case.outputs if name],
        initializers,
    )
    opsets = [(ONNX, 21), (MICROSOFT, 1), (ML, case.ml_opset)]
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets], ir_version=10
    )
    return model, feeds


def draw_kind(case):
    """The type of outputs of which some elements do not count: that of the first input."""
    return next(iter(case.inputs.values())).dtype


def answers_of_onnx_runtime(model, feeds):
    options = with_exact_sums(onnxruntime.SessionOptions())
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        answers = session.run(None, feeds)
    except Exception as error:  # of several types, none of which is its own
        raise Refused(str(error)) from error
    return dict(zip([output.name for output in session.get_outputs()], answers, strict=True))


def write_test(folder, domain, op_type, case, draw):
    """Raises Refused where ONNX Runtime does."""
    model, feeds = make_model(domain, op_type, case, draw)
    expected = case.expected
    if expected is None:
        asked = replace(
            case,
            inputs=case.same_as or case.inputs,
            attributes=case.same_attributes or case.attributes,
        )
        expected = answers_of_onnx_runtime(*make_model(domain, op_type, asked, draw))
    for output in model.graph.output:  # autopar wants to know the outputs' types
        output.CopyFrom(tensor_info(output.name, expected[output.name]))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    answers = [expected[output.name] for output in model.graph.output]
    for kind, arrays in (("input", feeds.values()), ("output", answers)):
        for i, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.asarray(array))
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
    relative, absolute = case.tolerance or tolerance_of(answers)
    (folder / "data.json").write_text(json.dumps({"rtol": relative, "atol": absolute}))


def tolerance_of(answers):
    """Integers are equal, unless the case says otherwise."""
    tolerances = [TOLERANCES.get(np.asarray(array).dtype, (0, 0)) for array in answers]
    return max(tolerances)
