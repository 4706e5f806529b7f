"""More layers in an exported graph of equal layers, without the exporter.

The exporter writes a model layer by layer, so its list of nodes is periodic between a head, which has the
first layer or more in it, and a tail. The *template* is the first period whose nodes each read what the
same node of the period before reads, or what lies one period behind that, or a weight of their own.
"""

import copy

import onnx


def is_next_layer(graph, maker, start, period):
    """Whether the nodes from `start` do what those of the period before do, one layer further."""

    def follows(name, before):
        if name in maker and before in maker:
            return maker[name] in (maker[before], maker[before] + period)
        return name == before or (name not in maker and before not in maker)

    return all(
        node.op_type == before.op_type
        and list(node.attribute) == list(before.attribute)
        and len(node.input) == len(before.input)
        and all(map(follows, node.input, before.input))
        for node, before in zip(graph.node[start : start + period], graph.node[start - period : start])
    )


class Repeater:
    """Copies of a graph's template. The value `v` of the template is `v.3` in its third copy."""

    def __init__(self, graph, period):
        self.graph, self.period = graph, period
        self.maker = {name: index for index, node in enumerate(graph.node) for name in node.output}
        starts = range(period, len(graph.node) - 2 * period + 1)
        self.begin = next((at for at in starts if is_next_layer(graph, self.maker, at, period)), None)
        if self.begin is None:
            raise SystemExit(f"no {period} nodes in a row do what the {period} before them do: layers differ?")
        self.end = self.begin + period
        self.template = graph.node[self.begin : self.end]
        self.sources = {}  # what the template reads: which value of it, how many layers back
        for node, before in zip(self.template, graph.node[self.begin - period : self.begin]):
            self.sources |= {name: self.source(name) for name, other in zip(node.input, before.input)
                             if name != other}
        self.weights = {name for name in self.sources if name not in self.maker}

    def source(self, name):
        index = self.maker.get(name, self.begin)
        if index >= self.begin:
            return name, 0
        return self.graph.node[index + self.period].output[list(self.graph.node[index].output).index(name)], 1

    def read(self, name, layer):
        """What copy `layer` reads where the template reads `name`."""
        if name not in self.sources:
            return name
        value, back = self.sources[name]
        return copy_name(value, layer - back)

    def node_copy(self, node, layer):
        made = copy.deepcopy(node)
        made.name = copy_name(node.name, layer)
        made.input[:] = [self.read(name, layer) for name in node.input]
        made.output[:] = [copy_name(name, layer) if name else "" for name in node.output]
        del made.metadata_props[:]  # they name the template's layer
        return made

    def tail_node(self, node, layers):
        made = copy.deepcopy(node)
        made.input[:] = [copy_name(name, layers) if self.is_made_by_template(name) else name
                         for name in node.input]
        return made

    def is_made_by_template(self, name):
        return self.begin <= self.maker.get(name, -1) < self.end


def copy_name(name, layer):
    return f"{name}.{layer}" if layer else name


def renamed(messages, names, layers):
    """Copies of those values or weights that bear one of the names, for each new layer."""
    for layer in range(1, layers + 1):
        for message in messages:
            if message.name in names:
                made = copy.deepcopy(message)
                made.name = copy_name(message.name, layer)
                yield made


def repeat_layers(base, period, layers):
    """`base`, whose layers have `period` nodes each, with so many layers more."""
    repeater = Repeater(base.graph, period)
    result = copy.deepcopy(base)
    graph = result.graph
    del graph.node[repeater.end :]
    for layer in range(1, layers + 1):
        graph.node.extend(repeater.node_copy(node, layer) for node in repeater.template)
    graph.node.extend(repeater.tail_node(node, layers) for node in base.graph.node[repeater.end :])
    values = {name for node in repeater.template for name in node.output}
    graph.value_info.extend(renamed(base.graph.value_info, values, layers))
    graph.initializer.extend(renamed(base.graph.initializer, repeater.weights, layers))
    place_weights(graph)
    return result


def place_weights(graph):
    """Gives each weight outside the file a place of its own in the data file."""
    offset = 0
    for tensor in graph.initializer:
        places = {entry.key: entry for entry in tensor.external_data}
        if places:
            places["offset"].value = str(offset)
            offset += int(places["length"].value)


def canonical(graph):
    """The graph with values numbered as they first appear: equal for graphs that differ in names alone."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    types = {value.name: value.type.SerializeToString(deterministic=True)
             for value in [*graph.input, *graph.value_info, *graph.output]}
    numbers = {"": -1}

    def number(name):
        known = name in numbers
        value = numbers.setdefault(name, len(numbers))
        if known or name not in weights:
            return value, types.get(name) if not known else None
        tensor = onnx.TensorProto()
        tensor.CopyFrom(weights[name])
        tensor.ClearField("name")
        tensor.ClearField("external_data")
        return value, tensor.SerializeToString(deterministic=True)

    nodes = [(node.domain, node.op_type, [a.SerializeToString(deterministic=True) for a in node.attribute],
              [number(name) for name in node.input], [number(name) for name in node.output])
             for node in graph.node]
    return nodes, [number(value.name) for value in graph.output]


def assert_same_graph(ours, exported):
    nodes, outputs = canonical(ours.graph)
    expected_nodes, expected_outputs = canonical(exported.graph)
    if len(nodes) != len(expected_nodes):
        raise SystemExit(f"{len(nodes)} nodes where the exporter makes {len(expected_nodes)}")
    for index, (node, expected) in enumerate(zip(nodes, expected_nodes)):
        if node != expected:
            raise SystemExit(f"node {index} is {node} where the exporter makes {expected}")
    if outputs != expected_outputs:
        raise SystemExit(f"outputs are {outputs} where the exporter makes {expected_outputs}")
