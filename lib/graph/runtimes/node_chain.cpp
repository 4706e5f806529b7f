#include "graph/runtimes/node_chain.h"

#include <algorithm>
#include <utility>

namespace autopar::graph {

GraphRewriter::GraphRewriter(Graph& graph) : graph_(graph) {
  names_.insert_names(graph.values);
  names_.insert_names(graph.nodes);
}

ValueId GraphRewriter::integers(const std::string& wanted,
                                const std::vector<std::int64_t>& numbers) {
  const Shape shape{static_cast<std::int64_t>(numbers.size())};
  return graph_.add_constant(names_.take(wanted), Tensor::of_int64(shape, numbers));
}

void GraphRewriter::finish() { graph_.nodes = std::move(nodes_); }

NodeChain::NodeChain(GraphRewriter& rewriter, std::string name, ValueId from)
    : rewriter_(rewriter), name_(std::move(name)), at_(from) {}

NodeChain& NodeChain::add(Node node, Shape shape, DataType type) {
  node.inputs.insert(node.inputs.begin(), at_);
  at_ = rewriter_.graph().add_value(
      {rewriter_.name(node.name + "/output"), type, std::move(shape), std::nullopt});
  node.outputs = {at_};
  nodes_.push_back(std::move(node));
  return *this;
}

NodeChain& NodeChain::add(const char* op_type, const char* suffix, std::vector<ValueId> more,
                          std::map<std::string, Attribute> attributes, Shape shape, DataType type) {
  return add({.name = rewriter_.name(name_ + suffix),
              .op_type = op_type,
              .domain = {},
              .inputs = std::move(more),
              .outputs = {},
              .attributes = std::move(attributes)},
             std::move(shape), type);
}

NodeChain& NodeChain::reshape(const Shape& to) {
  if (to == shape()) return *this;
  std::map<std::string, Attribute> attributes;
  if (std::ranges::find(to, 0) != to.end()) attributes["allowzero"] = std::int64_t{1};
  return add("Reshape", "/reshape", {rewriter_.integers(name_ + "/shape", to)},
             std::move(attributes), to, type());
}

NodeChain& NodeChain::transpose(const std::vector<std::int64_t>& permutation) {
  if (std::ranges::is_sorted(permutation)) return *this;
  Shape permuted;
  for (const std::int64_t from : permutation)
    permuted.push_back(shape()[static_cast<std::size_t>(from)]);
  return add("Transpose", "/transpose", {}, {{"perm", permutation}}, std::move(permuted), type());
}

NodeChain& NodeChain::cast(DataType to) {
  if (to == type()) return *this;
  return add("Cast", "/cast", {}, {{"to", static_cast<std::int64_t>(to)}}, shape(), to);
}

NodeChain& NodeChain::expand(const Shape& to) {
  return add("Expand", "/expand", {rewriter_.integers(name_ + "/shape", to)}, {}, to, type());
}

NodeChain& NodeChain::nothing() {
  const ValueId zero = rewriter_.integers(name_ + "/zero", {0});
  return add("Slice", "/nothing", {zero, zero}, {}, {0}, type());
}

NodeChain& NodeChain::append(ValueId other) {
  Shape joined = shape();
  joined.front() += rewriter_.value(other).shape.front();
  return add("Concat", "/append", {other}, {{"axis", std::int64_t{0}}}, std::move(joined), type());
}

NodeChain& NodeChain::through(Node node, Shape shape) {
  node.name = rewriter_.name(name_);
  const DataType same = type();
  return add(std::move(node), std::move(shape), same);
}

void NodeChain::end_in(ValueId to) {
  if (nodes_.empty()) add("Identity", "/identity", {}, {}, shape(), type());
  nodes_.back().outputs = {to};
  for (Node& node : nodes_) rewriter_.append(std::move(node));
  nodes_.clear();
  at_ = to;
}

}  // namespace autopar::graph
