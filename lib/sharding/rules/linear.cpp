#include "sharding/rules/linear.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "sharding/rules/rule_text.h"

namespace autopar::sharding::linear {

Groups in_first(const graph::Graph& /*graph*/, const graph::Node& /*node*/) { return {{0}}; }

Groups in_each(const graph::Graph& /*graph*/, const graph::Node& node) {
  Groups groups;
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) groups.push_back({i});
  return groups;
}

Groups in_all(const graph::Graph& /*graph*/, const graph::Node& node) {
  std::vector<int> all(node.inputs.size());
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

Groups in_branches(const graph::Graph& /*graph*/, const graph::Node& /*node*/) { return {{1, 2}}; }

Groups in_factors(const graph::Graph& /*graph*/, const graph::Node& node) {
  if (rules::has_input(node, 2)) return {{0, 2}, {1, 2}};
  return {{0}, {1}};
}

Groups in_first_and_bias(const graph::Graph& /*graph*/, const graph::Node& node) {
  return rules::has_input(node, 5) ? Groups{{0, 5}} : Groups{{0}};
}

Groups in_deformed(const graph::Graph& /*graph*/, const graph::Node& node) {
  if (rules::has_input(node, 3)) return {{0, 3}, {1, 3}};
  return {{0}, {1}};
}

Groups in_averages(const graph::Graph& /*graph*/, const graph::Node& node) {
  return node.string_attribute("mode", "avg") == "avg" ? Groups{{0}} : Groups{};
}

Groups in_updates(const graph::Graph& /*graph*/, const graph::Node& node) {
  const std::string reduction = node.string_attribute("reduction", "none");
  return reduction == "none" || reduction == "add" ? Groups{{0, 2}} : Groups{};
}

Groups in_cache(const graph::Graph& /*graph*/, const graph::Node& /*node*/) { return {{0, 1}}; }

Groups in_values(const graph::Graph& /*graph*/, const graph::Node& node) {
  if (rules::has_output(node, 1) || rules::has_output(node, 3)) return {};
  return rules::has_input(node, 5) ? Groups{{2, 5}} : Groups{{2}};
}

Groups in_padded(const graph::Graph& graph, const graph::Node& node) {
  if (!rules::has_input(node, 2)) return {{0}};
  const auto& value = graph.value(node.inputs[2]).constant;
  const bool is_zero =
      value && value->has_data() &&
      std::ranges::all_of(value->bytes(), [](auto byte) { return byte == decltype(byte){}; });
  return is_zero ? Groups{{0}} : Groups{};
}

}  // namespace autopar::sharding::linear
