#include "graph/onnx/import/graph_builder.h"

#include <algorithm>

namespace autopar::graph {

GraphBuilder GraphBuilder::for_body() const {
  GraphBuilder body;
  body.names_ = names_;
  return body;
}

void GraphBuilder::reserve(const std::string& name) {
  names_->reserved.insert(name);
  names_->values.insert(name);
}

std::string GraphBuilder::take(const ValueName& name) {
  const bool is_reserved = name.is_models && names_->reserved.erase(name.text) > 0;
  return is_reserved ? name.text : names_->values.take(name.text);
}

ValueId GraphBuilder::add_value(const ValueName& name, DataType type, Shape shape) {
  return graph_.add_value({take(name), type, std::move(shape), std::nullopt});
}

ValueId GraphBuilder::add_input(const ValueName& name, DataType type, Shape shape) {
  graph_.inputs.push_back(add_value(name, type, std::move(shape)));
  return graph_.inputs.back();
}

ValueId GraphBuilder::add_constant(const ValueName& name, Tensor tensor, bool from_file) {
  const ValueId id = add_value(name, tensor.type(), tensor.shape());
  graph_.value(id).constant = std::move(tensor);
  if (from_file) from_file_.insert(id);
  return id;
}

void GraphBuilder::add_node(Node node) {
  if (node.name.empty() || node.name.back() == '/')
    node.name += fmt::format("{}_{}", node.op_type, graph_.nodes.size());
  node.name = names_->nodes.take(node.name);
  graph_.nodes.push_back(std::move(node));
}

bool GraphBuilder::is_weight_matrix(ValueId id) const {
  if (!from_file_.contains(id)) return false;
  const Value& held = graph_.value(id);
  return is_floating_point(held.type) &&
         std::ranges::count_if(held.shape, [](std::int64_t extent) { return extent > 1; }) > 1;
}

Graph GraphBuilder::finish(const std::vector<std::pair<std::string, ValueId>>& outputs) {
  const auto made_by = producers(graph_);
  std::unordered_set<ValueId> known;
  for (const auto& [name, id] : outputs) {
    const bool made = made_by[static_cast<std::size_t>(id)] != no_node;
    if (made && known.insert(id).second) {
      graph_.value(id).name = name;
      graph_.outputs.push_back(id);
      continue;
    }
    if (graph_.is_constant(id) && graph_.value(id).name == name)
      graph_.value(id).name = names_->values.take(name);
    add_copied_output(id, graph_.value(id).name == name ? names_->values.take(name) : name);
  }
  return std::move(graph_);
}

Graph GraphBuilder::finish_body(const std::vector<ValueId>& outputs) {
  const auto made_by = producers(graph_);
  std::unordered_set<ValueId> known;
  for (const ValueId id : outputs) {
    const bool made = made_by[static_cast<std::size_t>(id)] != no_node;
    if (made && known.insert(id).second)
      graph_.outputs.push_back(id);
    else
      add_copied_output(id, names_->values.take(graph_.value(id).name));
  }
  return std::move(graph_);
}

void GraphBuilder::release_names() {
  for (const Value& value : graph_.values) names_->values.release(value.name);
  for (const Node& node : graph_.nodes) names_->nodes.release(node.name);
}

void GraphBuilder::add_copied_output(ValueId id, const std::string& name) {
  Value copy = graph_.value(id);
  copy.constant.reset();
  copy.name = name;
  const ValueId output = graph_.add_value(std::move(copy));
  add_node({name + "/Identity", "Identity", "", {id}, {output}, {}});
  graph_.outputs.push_back(output);
}

}  // namespace autopar::graph
