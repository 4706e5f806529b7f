#include "graph/graph.h"

#include <algorithm>
#include <unordered_map>

#include "graph/loop_body.h"

namespace autopar::graph {
namespace {

template <typename T>
T attribute_or(const Node& node, const std::string& key, T otherwise, const char* expected) {
  const auto found = node.attributes.find(key);
  if (found == node.attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  fail("attribute '{}' of {} node '{}' must be {}", key, qualified_op_type(node), node.name,
       expected);
}

/// Marks what the outputs, and nodes that exist for their effect, depend on. A collective is one of
/// these: its other ranks wait for this one, which may need the result less than they do.
struct Liveness {
  std::vector<bool> nodes;
  std::vector<bool> values;
};

Liveness find_live(const Graph& graph) {
  Liveness live{std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.values.size())};
  const auto mark = [&live](ValueId id) {
    if (id != no_value) live.values[static_cast<std::size_t>(id)] = true;
  };
  std::ranges::for_each(graph.inputs, mark);
  std::ranges::for_each(graph.outputs, mark);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const auto is_live = [&](ValueId id) {
      return id != no_value && live.values[static_cast<std::size_t>(id)];
    };
    const bool needed = node.outputs.empty() || node.domain == collective_domain ||
                        std::ranges::any_of(node.outputs, is_live);
    if (!needed) continue;
    live.nodes[n] = true;
    std::ranges::for_each(node.inputs, mark);
    std::ranges::for_each(node.outputs, mark);
  }
  return live;
}

template <typename T>
void keep_marked(std::vector<T>& all, const std::vector<bool>& marked) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!marked[i]) continue;
    if (kept != i) all[kept] = std::move(all[i]);
    ++kept;
  }
  all.resize(kept);
}

void check_value(const Value& value) {
  require(!value.name.empty(), "every value has a name");
  require(value.type != DataType::undefined, "every value has a type");
  require(std::ranges::all_of(value.shape, [](std::int64_t extent) { return extent >= 0; }),
          "every value has a static shape");
  if (!value.constant) return;
  require(value.constant->type() == value.type, "a constant has its value's type");
  require(value.constant->shape() == value.shape, "a constant has its value's shape");
}

void check_body(const Node& node) {
  const LoopBody& body = *node.body;
  require(body.graph.inputs.size() > body.carried && body.graph.outputs.size() > body.carried,
          "a loop's body has the round, what is carried and whether another round follows");
  require(node.inputs.size() == body.graph.inputs.size() + 1,
          "a loop has an input for each that its body carries or captures");
  require(node.outputs.size() == body.carried + body.collected(),
          "a loop has an output for each that its body carries or that is collected");
  check_invariants(body.graph);
}

}  // namespace

std::int64_t Node::int_attribute(const std::string& key, std::int64_t otherwise) const {
  return attribute_or(*this, key, otherwise, "an integer");
}

float Node::float_attribute(const std::string& key, float otherwise) const {
  return attribute_or(*this, key, otherwise, "a float");
}

std::string Node::string_attribute(const std::string& key, const std::string& otherwise) const {
  return attribute_or(*this, key, otherwise, "a string");
}

std::vector<std::int64_t> Node::ints_attribute(const std::string& key,
                                               std::vector<std::int64_t> otherwise) const {
  return attribute_or(*this, key, std::move(otherwise), "a list of integers");
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string wanted, Tensor tensor) {
  for (; named_ < values.size(); ++named_) names_.insert(values[named_].name);
  std::string unique = wanted;
  for (int suffix = 1; names_.contains(unique); ++suffix)
    unique = fmt::format("{}_{}", wanted, suffix);
  const DataType type = tensor.type();
  Shape shape = tensor.shape();
  return add_value({std::move(unique), type, std::move(shape), std::move(tensor)});
}

std::string qualified_op_type(const Node& node) {
  return node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type;
}

std::vector<NodeId> producers(const Graph& graph) {
  std::vector<NodeId> result(graph.values.size(), no_node);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId output : graph.nodes[n].outputs)
      if (output != no_value) result[static_cast<std::size_t>(output)] = static_cast<NodeId>(n);
  return result;
}

std::vector<std::vector<NodeId>> consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> result(graph.values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId input : graph.nodes[n].inputs)
      if (input != no_value)
        result[static_cast<std::size_t>(input)].push_back(static_cast<NodeId>(n));
  return result;
}

bool holds_weights(DataType type) {
  return is_floating_point(type) || type == DataType::int8 || type == DataType::uint8 ||
         is_low_precision(type);
}

std::int64_t constant_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant) bytes += value.constant->size_bytes();
  for (const Node& node : graph.nodes)
    if (node.body) bytes += constant_bytes(node.body->graph);
  return bytes;
}

std::int64_t weight_bytes(const Graph& graph) {
  std::unordered_map<const std::byte*, std::vector<const Tensor*>> seen;
  std::int64_t bytes = 0;
  for (const Value& value : graph.values) {
    if (!value.constant || !holds_weights(value.type)) continue;
    auto& same_start = seen[value.constant->data()];
    const bool tied = std::ranges::any_of(
        same_start, [&](const Tensor* other) { return other->same_view(*value.constant); });
    if (tied) continue;
    same_start.push_back(&*value.constant);
    bytes += value.constant->size_bytes();
  }
  return bytes;
}

void check_invariants(const Graph& graph) {
  std::unordered_set<std::string> value_names;
  std::unordered_set<std::string> node_names;
  for (const Value& value : graph.values) {
    check_value(value);
    require(value_names.insert(value.name).second, "names of values are unique");
  }
  std::vector<bool> made(graph.values.size());
  const auto in_range = [&](ValueId id) {
    return id >= 0 && static_cast<std::size_t>(id) < graph.values.size();
  };
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    made[v] = graph.values[v].constant.has_value();
  for (const ValueId input : graph.inputs) {
    require(in_range(input), "an input is a value of the graph");
    require(!made[static_cast<std::size_t>(input)], "an input is listed once and is no constant");
    made[static_cast<std::size_t>(input)] = true;
  }
  for (const Node& node : graph.nodes) {
    require(!node.name.empty() && node_names.insert(node.name).second,
            "nodes have unique, non-empty names");
    for (const ValueId input : node.inputs)
      require(input == no_value || (in_range(input) && made[static_cast<std::size_t>(input)]),
              "a node reads what stands before it");
    if (node.body) check_body(node);
    for (const ValueId output : node.outputs) {
      if (output == no_value) continue;
      require(in_range(output) && !made[static_cast<std::size_t>(output)],
              "a value is made by one node");
      made[static_cast<std::size_t>(output)] = true;
    }
  }
  for (const ValueId output : graph.outputs)
    require(in_range(output) && made[static_cast<std::size_t>(output)], "an output is made");
}

void remove_dead_nodes(Graph& graph) {
  const Liveness live = find_live(graph);
  std::vector<ValueId> renumbered(graph.values.size(), no_value);
  ValueId next = 0;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (live.values[v]) renumbered[v] = next++;
  keep_marked(graph.values, live.values);
  graph.names_.clear();
  graph.named_ = 0;
  const auto renumber = [&renumbered](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id != no_value) id = renumbered[static_cast<std::size_t>(id)];
  };
  keep_marked(graph.nodes, live.nodes);
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
  renumber(graph.inputs);
  renumber(graph.outputs);
}

}  // namespace autopar::graph
