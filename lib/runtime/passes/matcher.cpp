#include "runtime/passes/matcher.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/kernels/common/element_types.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

const Node* Matcher::maker(ValueId value, std::string_view op_type) const {
  if (value == graph::no_value) return nullptr;
  const NodeId producer = uses_.producer(value);
  if (producer == graph::no_node) return nullptr;
  const Node& node = graph_.node(producer);
  return node.domain.empty() && node.op_type == op_type ? &node : nullptr;
}

const Node* Matcher::product(ValueId value) const {
  const NodeId producer = uses_.producer(value);
  if (producer == graph::no_node) return nullptr;
  const Node& node = graph_.node(producer);
  if (node.domain.empty() && node.op_type == "MatMul") return &node;
  const bool is_bare = node.inputs.size() == 2 && !node.has_attribute("activation") &&
                       !node.has_attribute("a_perm") && !node.has_attribute("b_perm") &&
                       !node.has_attribute("out_perm");
  const bool is_fused = node.domain == internal_domain && node.op_type == "FusedMatMul";
  return is_fused && is_bare ? &node : nullptr;
}

std::optional<double> Matcher::number(ValueId value) const {
  if (value == graph::no_value) return std::nullopt;
  const auto& constant = graph_.value(value).constant;
  if (!constant || constant->elements() != 1 || !constant->has_data()) return std::nullopt;
  const graph::Tensor element = constant->contiguous_copy();
  std::optional<double> number;
  visit_type(element.type(), Joined<Floats, Halves, Integers>{},
             [&]<typename T>(T) { number = static_cast<double>(widened(element.values<T>()[0])); });
  return number;
}

bool Matcher::is_number(ValueId value, double expected) const { return number(value) == expected; }

Matcher::Multiple Matcher::multiple(ValueId value) const {
  // Quotients of integers are cut off; a number of more dimensions would give the product more.
  const auto is_multiple_of = [&](ValueId id) { return shape(id) == shape(value); };
  if (!graph::is_floating_point(type(value))) return {value, 1};
  if (const Node* div = maker(value, "Div"); div != nullptr && is_multiple_of(div->inputs[0])) {
    const auto divisor = number(div->inputs[1]);
    if (!divisor) return {value, 1};
    const Multiple inner = multiple(div->inputs[0]);
    return {inner.of, inner.factor / *divisor};
  }
  const Node* mul = maker(value, "Mul");
  const auto other = beside(mul, [&](ValueId id) { return number(id).has_value(); });
  if (!other || !is_multiple_of(*other)) return {value, 1};
  const Multiple inner = multiple(*other);
  return {inner.of, inner.factor * *number(mul->inputs[*other == mul->inputs[0] ? 1 : 0])};
}

ValueId Matcher::uncast(ValueId value) const {
  const Node* cast = maker(value, "Cast");
  const bool keeps_numbers = cast != nullptr && graph::is_floating_point(type(value)) &&
                             graph::is_floating_point(type(cast->inputs[0]));
  return keeps_numbers ? uncast(cast->inputs[0]) : value;
}

std::optional<ValueId> Matcher::mean_of(ValueId value) const {
  const Node* mean = maker(value, "ReduceMean");
  if (mean == nullptr || mean->inputs.size() != 2 || mean->int_attribute("keepdims", 1) == 0)
    return std::nullopt;
  const auto axis = number(mean->inputs[1]);
  const auto rank = static_cast<double>(shape(value).size());
  if (!axis || (*axis != -1 && *axis != rank - 1)) return std::nullopt;
  return mean->inputs[0];
}

bool Matcher::is_closed(ValueId root, std::span<const ValueId> leaves) const {
  std::set<NodeId> inside = {uses_.producer(root)};
  std::vector<NodeId> open = {uses_.producer(root)};
  std::vector<ValueId> between;
  while (!open.empty()) {
    const Node& node = graph_.node(open.back());
    open.pop_back();
    for (const ValueId input : node.inputs) {
      if (input == graph::no_value || graph_.is_constant(input)) continue;
      if (std::ranges::find(leaves, input) != leaves.end()) continue;
      const NodeId producer = uses_.producer(input);
      if (producer == graph::no_node) return false;
      between.push_back(input);
      if (inside.insert(producer).second) open.push_back(producer);
    }
  }
  return std::ranges::all_of(between, [&](ValueId value) {
    return !uses_.leaves(value) && std::ranges::all_of(uses_.readers(value), [&](NodeId reader) {
      return inside.contains(reader);
    });
  });
}

TensorView view_of(const Graph& graph, ValueId value) {
  if (value == graph::no_value) return {};
  return {graph.value(value).type, graph.value(value).shape, nullptr};
}

bool can_run(const KernelTable& kernels, const Graph& graph, const Node& node) {
  const KernelEntry* entry = kernels.find(node.domain, node.op_type);
  if (entry == nullptr) return false;
  if (entry->serves == nullptr) return true;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  for (const ValueId id : node.inputs) inputs.push_back(view_of(graph, id));
  for (const ValueId id : node.outputs) outputs.push_back(view_of(graph, id));
  return entry->serves(node, inputs, outputs);
}

Node reshape_node(Graph& graph, const std::string& name, ValueId from, ValueId to) {
  const Shape& shape = graph.value(to).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const ValueId extents =
      graph.add_constant(name + ":shape", graph::Tensor::of_int64({rank}, shape));
  return {name, "Reshape", "", {from, extents}, {to}, {}};
}

ValueId Insertions::reshape_before(NodeId before, Graph& graph, ValueId value, const Shape& shape,
                                   std::string_view suffix) {
  if (graph.value(value).shape == shape) return value;
  const std::string name = fmt::format("{}:{}", graph.node(before).name, suffix);
  const ValueId reshaped = graph.add_value({name, graph.value(value).type, shape, std::nullopt});
  this->before(before, reshape_node(graph, name, value, reshaped));
  return reshaped;
}

void Insertions::append(Insertions more) {
  for (auto& each : more.inserted_) inserted_.push_back(std::move(each));
}

void Insertions::apply(Graph& graph) {
  std::ranges::stable_sort(inserted_, {}, [](const auto& each) { return each.first; });
  std::vector<Node> nodes;
  auto next = inserted_.begin();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (; next != inserted_.end() && next->first == static_cast<NodeId>(n); ++next)
      nodes.push_back(std::move(next->second));
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);
  inserted_.clear();
}

}  // namespace autopar::runtime::passes
