#include "sharding/decomposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/unique_names.h"
#include "graph/onnx/infer_node.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// A graph of the operator's tensors alone, which `local`, a copy of the node, is made to read.
Decomposition ports_of(const Graph& graph, const Node& node, Node& local) {
  Decomposition result;
  result.graph.opsets = graph.opsets;
  for (auto* ids : {&local.inputs, &local.outputs}) {
    for (ValueId& id : *ids) {
      if (id == graph::no_value) continue;
      result.ports.push_back(id);
      id = result.graph.add_value(graph.value(id));
      // Prices know values by name, and what a fusion saves is not saved here.
      result.graph.value(id).name += "/of " + node.name;
    }
  }
  return result;
}

/// Reads its inputs as they lie, and leaves none of its outputs partial or scattered.
OpShardSpec strategy_of(const Graph& graph, const Node& node,
                        const std::vector<TensorShardSpec>& specs, const DeviceMesh& mesh) {
  const auto rule = sharding_rule(graph, node);
  require(rule.has_value(), "the parts of a decomposition have rules");
  std::vector<TensorShardSpec> inputs;
  for (const ValueId input : node.inputs)
    inputs.push_back(input == graph::no_value ? TensorShardSpec() : specs[input]);
  for (OpShardSpec& choice : op_shard_specs_reading(graph, node, *rule, mesh, inputs))
    if (std::ranges::count(choice.reductions, ReduceFunction::reduce_scatter) == 0)
      return std::move(choice);
  throw InternalError("internal error: " + node.name +
                      " cannot be split as its rule decomposes it");
}

/// Appends the operators to the graph that has their ports, and their strategies.
void append(Decomposition parts, UniqueNames& names, Graph& graph,
            std::vector<OpShardSpec>& strategies) {
  std::vector<ValueId> ids = parts.ports;
  for (std::size_t v = ids.size(); v < parts.graph.values.size(); ++v) {
    graph::Value& value = parts.graph.values[v];
    value.name = names.take(value.name);
    ids.push_back(graph.add_value(std::move(value)));
  }
  for (Node& node : parts.graph.nodes) {
    node.name = names.take(node.name);
    for (auto* list : {&node.inputs, &node.outputs}) {
      for (ValueId& id : *list) {
        if (id != graph::no_value) id = ids[id];
      }
    }
    graph.nodes.push_back(std::move(node));
  }
  std::ranges::move(parts.strategies, std::back_inserter(strategies));
}

}  // namespace

ValueId Decomposer::input(std::size_t i) const {
  return i < node_.inputs.size() ? node_.inputs[i] : graph::no_value;
}

ValueId Decomposer::make(const std::string& op_type, std::vector<ValueId> inputs,
                         std::map<std::string, graph::Attribute> attributes) {
  const std::string name = fmt::format("{}/{}{}", node_.name, op_type, graph_.nodes.size());
  const ValueId output = graph_.add_value({name + "/y", {}, {}, std::nullopt});
  Node& made = graph_.nodes.emplace_back(
      Node{name, op_type, "", std::move(inputs), {output}, std::move(attributes)});
  const graph::OutputType inferred = graph::infer_node(graph_, made).at(0);
  require(inferred.shape.has_value(), "shapes of a decomposition are inferred");
  graph_.value(output).type = inferred.type;
  graph_.value(output).shape = *inferred.shape;
  return output;
}

ValueId Decomposer::reduce(const std::string& op_type, ValueId value,
                           const std::vector<std::size_t>& dims) {
  return make(op_type, {value, ints({dims.begin(), dims.end()})}, {{"keepdims", std::int64_t{1}}});
}

ValueId Decomposer::mean(const std::string& op_type, ValueId value,
                         const std::vector<std::size_t>& dims) {
  double count = 1;
  for (const std::size_t d : dims) count *= static_cast<double>(shape(value)[d]);
  const ValueId sum = reduce(op_type, value, dims);
  return make("Div", {sum, number(count, sum)});
}

ValueId Decomposer::ints(const std::vector<std::int64_t>& values) {
  return graph_.add_constant(
      node_.name + "/ints",
      graph::Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
}

ValueId Decomposer::number(double value, ValueId like) {
  const std::string name = node_.name + "/number";
  if (type(like) == graph::DataType::float64)
    return graph_.add_constant(name, graph::Tensor::of<double>(type(like), {}, {{value}}));
  require(type(like) == graph::DataType::float32, "numbers stand beside wide values");
  return graph_.add_constant(name, graph::Tensor::of_float({}, {{static_cast<float>(value)}}));
}

ValueId Decomposer::wide(ValueId value) {
  const bool is_half =
      type(value) == graph::DataType::float16 || type(value) == graph::DataType::bfloat16;
  return is_half ? cast(value, graph::DataType::float32) : value;
}

ValueId Decomposer::cast(ValueId value, graph::DataType to) {
  return type(value) == to ? value : make("Cast", {value}, {{"to", static_cast<std::int64_t>(to)}});
}

void Decomposer::set_output(std::size_t i, ValueId value) {
  if (i >= node_.outputs.size() || node_.outputs[i] == graph::no_value) return;
  const ValueId output = node_.outputs[i];
  const ValueId made = cast(value, type(output));
  require(shape(made) == shape(output), "a decomposition has the operator's shapes");
  for (Node& node : graph_.nodes) {  // of `made` itself nobody knows from now on
    std::ranges::replace(node.inputs, made, output);
    std::ranges::replace(node.outputs, made, output);
  }
}

Decomposition decompose(const Graph& graph, const Node& node, const ShardingRule& rule,
                        const OpShardSpec& spec, const DeviceMesh& mesh) {
  Node local = node;
  Decomposition result = ports_of(graph, node, local);
  Decomposer decomposer(result.graph, local);
  rule.decompose(decomposer);
  std::vector<TensorShardSpec> specs;
  for (const graph::Value& value : result.graph.values)
    specs.push_back(TensorShardSpec::replicated(value.shape.size()));
  for (std::size_t i = 0; i < local.inputs.size(); ++i) {
    if (local.inputs[i] != graph::no_value) specs[local.inputs[i]] = spec.inputs[i];
  }
  for (const Node& each : result.graph.nodes) {
    OpShardSpec strategy = strategy_of(result.graph, each, specs, mesh);
    for (std::size_t o = 0; o < each.outputs.size(); ++o)
      specs[each.outputs[o]] = strategy.outputs[o];
    result.strategies.push_back(std::move(strategy));
  }
  for (std::size_t o = 0; o < local.outputs.size(); ++o) {
    require(local.outputs[o] == graph::no_value || specs[local.outputs[o]] == spec.outputs[o],
            "a decomposition leaves outputs as the strategy says");
  }
  return result;
}

void decompose_normalized(Graph& graph, std::vector<OpShardSpec>& strategies,
                          const DeviceMesh& mesh) {
  std::vector<std::optional<Decomposition>> parts(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto rule = sharding_rule(graph, graph.nodes[n]);
    if (rule && splits_normalized(*rule, strategies[n].factor_axes))
      parts[n] = decompose(graph, graph.nodes[n], *rule, strategies[n], mesh);
  }
  UniqueNames names("#");
  names.insert_names(graph.values);
  names.insert_names(graph.nodes);
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  std::vector<OpShardSpec> of_nodes = std::exchange(strategies, {});
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (parts[n]) {
      append(std::move(*parts[n]), names, graph, strategies);
    } else {
      graph.nodes.push_back(std::move(nodes[n]));
      strategies.push_back(std::move(of_nodes[n]));
    }
  }
}

}  // namespace autopar::sharding
