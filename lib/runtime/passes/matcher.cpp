#include "runtime/passes/matcher.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime::passes {

bool holds_all_of(DataType wide, DataType narrow) {
  const bool are_floats = graph::is_floating_point(wide) && graph::is_floating_point(narrow);
  const bool is_exact = wide == DataType::float32 || wide == DataType::float64;
  return are_floats && is_exact && graph::bits_of(wide) > graph::bits_of(narrow);
}

Matcher::Matcher(const Graph& graph)
    : graph_(graph),
      producers_(graph::producers(graph)),
      readers_(graph::consumers(graph)),
      is_output_(graph.values.size()) {
  for (const ValueId id : graph.outputs) is_output_[static_cast<std::size_t>(id)] = true;
}

std::optional<graph::Tensor> Matcher::data(ValueId value) const {
  if (!has_data(value)) return std::nullopt;
  return graph_.value(value).constant->contiguous_copy();
}

NodeId Matcher::producer(ValueId value) const {
  return is_known(value) ? producers_[static_cast<std::size_t>(value)] : graph::no_node;
}

const std::vector<NodeId>& Matcher::readers(ValueId value) const {
  static const std::vector<NodeId> none;
  return is_known(value) ? readers_[static_cast<std::size_t>(value)] : none;
}

const Node* Matcher::maker(ValueId value) const {
  const NodeId made_by = producer(value);
  return made_by == graph::no_node ? nullptr : &graph_.node(made_by);
}

const Node* Matcher::maker(ValueId value, std::string_view op_type) const {
  const Node* node = maker(value);
  return node != nullptr && is_onnx(*node, op_type) ? node : nullptr;
}

bool Matcher::is_product(const Node& node) const {
  const bool is_fused = node.domain == internal_domain && node.op_type == "FusedMatMul";
  return (is_fused || is_onnx(node, "MatMul")) && shape(node.inputs[0]).size() >= 2 &&
         shape(node.inputs[1]).size() >= 2;
}

const Node* Matcher::product(ValueId value) const {
  const Node* node = maker(value);
  if (node == nullptr || is_onnx(*node, "MatMul")) return node;
  const bool is_bare = node->inputs.size() == 2 && !node->has_attribute("activation") &&
                       !node->has_attribute("a_perm") && !node->has_attribute("b_perm") &&
                       !node->has_attribute("out_perm");
  return is_bare && is_product(*node) ? node : nullptr;
}

std::optional<double> Matcher::number(ValueId value) const {
  if (!is_constant(value) || graph::num_elements(shape(value)) != 1) return std::nullopt;
  const auto element = data(value);
  std::optional<double> number;
  if (element)
    visit_type(element->type(), Joined<Floats, Halves, Integers>{}, [&]<typename T>(T) {
      number = static_cast<double>(widened(element->values<T>()[0]));
    });
  return number;
}

bool is_moderate(double factor) {
  constexpr double largest = 1 << 30;
  return factor == 0 || (std::abs(factor) <= largest && std::abs(factor) >= 1 / largest);
}

std::optional<Matcher::Multiple> Matcher::one_multiple(ValueId value) const {
  if (!graph::is_floating_point(type(value))) return std::nullopt;  // quotients would be cut off
  std::optional<ValueId> of;
  std::optional<double> factor;
  if (const Node* div = maker(value, "Div")) {
    of = div->inputs[0];
    if (const auto divisor = number(div->inputs[1])) factor = 1 / *divisor;
  } else if (const Node* mul = maker(value, "Mul")) {
    of = beside(mul, [&](ValueId id) { return number(id).has_value(); });
    if (of) factor = number(mul->inputs[*of == mul->inputs[0] ? 1 : 0]);
  }
  // A number of more dimensions would give the product more.
  if (!of || !factor || shape(*of) != shape(value)) return std::nullopt;
  return Multiple{*of, *factor};
}

Matcher::Multiple Matcher::multiple(ValueId value) const {
  Multiple found{value, 1};
  while (const auto inner = one_multiple(found.of)) {
    const double joined = found.factor * inner->factor;
    if (!is_moderate(inner->factor) || !is_moderate(joined)) break;
    found = {inner->of, joined};
  }
  return found;
}

ValueId Matcher::before_widening(ValueId value) const {
  const Node* cast = maker(value, "Cast");
  return cast != nullptr && holds_all_of(type(value), type(cast->inputs[0]))
             ? before_widening(cast->inputs[0])
             : value;
}

ValueId Matcher::uncast(ValueId value) const {
  const Node* cast = maker(value, "Cast");
  const bool keeps_numbers = cast != nullptr && graph::is_floating_point(type(value)) &&
                             graph::is_floating_point(type(cast->inputs[0]));
  return keeps_numbers ? uncast(cast->inputs[0]) : value;
}

std::optional<std::vector<std::int64_t>> Matcher::reduced_axes(const Node& reduction) const {
  if (!has_input(reduction, 1)) return std::vector<std::int64_t>();
  const auto listed = data(reduction.inputs[1]);
  if (!listed || listed->type() != DataType::int64) return std::nullopt;
  const auto values = listed->values<std::int64_t>();
  std::vector<std::int64_t> axes(values.begin(), values.end());
  const auto rank = static_cast<std::int64_t>(shape(reduction.inputs[0]).size());
  for (std::int64_t& axis : axes)
    if (axis < 0) axis += rank;
  std::ranges::sort(axes);
  return axes;
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
  std::set<NodeId> inside = {producer(root)};
  std::vector<NodeId> open = {producer(root)};
  std::vector<ValueId> between;
  while (!open.empty()) {
    const Node& node = graph_.node(open.back());
    open.pop_back();
    for (const ValueId input : node.inputs) {
      if (input == graph::no_value || graph_.is_constant(input)) continue;
      if (std::ranges::find(leaves, input) != leaves.end()) continue;
      const NodeId made_by = producer(input);
      if (made_by == graph::no_node) return false;
      between.push_back(input);
      if (inside.insert(made_by).second) open.push_back(made_by);
    }
  }
  return std::ranges::all_of(between, [&](ValueId value) {
    return !is_output(value) && std::ranges::all_of(readers(value), [&](NodeId reader) {
      return inside.contains(reader);
    });
  });
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
  if (inserted_.empty()) return;
  std::ranges::stable_sort(inserted_, {}, [](const auto& each) { return each.first; });
  std::vector<Node> nodes;
  auto next = inserted_.begin();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (; next != inserted_.end() && next->first == static_cast<NodeId>(n); ++next)
      nodes.push_back(std::move(next->second));
    nodes.push_back(std::move(graph.nodes[n]));
  }
  for (; next != inserted_.end(); ++next) nodes.push_back(std::move(next->second));
  graph.nodes = std::move(nodes);
  inserted_.clear();
}

bool Pass::can_run(const Node& node) const { return passes::can_run(kernels, graph, node); }

std::optional<Node> Pass::if_it_runs(Node node) const {
  return can_run(node) ? std::optional(std::move(node)) : std::nullopt;
}

void rewrite_nodes(Graph& graph, const KernelTable& kernels, const NodeRewrite& rewrite) {
  Pass pass(graph, kernels);
  for (Node& node : graph.nodes)
    if (auto rewritten = rewrite(pass, node)) node = std::move(*rewritten);
  pass.insertions.apply(graph);
}

void rewrite_nodes_from_last(Graph& graph, const KernelTable& kernels, const NodeRewrite& rewrite) {
  Pass pass(graph, kernels);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (auto rewritten = rewrite(pass, *node)) *node = std::move(*rewritten);
  pass.insertions.apply(graph);
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

}  // namespace autopar::runtime::passes
