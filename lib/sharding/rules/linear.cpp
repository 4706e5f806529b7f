#include <algorithm>
#include <numeric>

#include "sharding/rules/rules.h"

namespace autopar::sharding::linear {

using Groups = std::vector<std::vector<int>>;
using rules::Operator;

Groups in_first(const Operator& /*op*/) { return {{0}}; }

Groups in_each(const Operator& op) {
  Groups groups;
  for (int i = 0; i < std::ssize(op.inputs); ++i) groups.push_back({i});
  return groups;
}

Groups in_all(const Operator& op) {
  std::vector<int> all(op.inputs.size());
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

Groups in_branches(const Operator& /*op*/) { return {{1, 2}}; }

Groups in_factors(const Operator& /*op*/) { return {{0, 2}, {1, 2}}; }

Groups in_first_and_bias(const Operator& /*op*/) { return {{0, 5}}; }

Groups in_deformed(const Operator& /*op*/) { return {{0, 3}, {1, 3}}; }

Groups in_averages(const Operator& op) {
  return op.node.string_attribute("mode", "avg") == "avg" ? Groups{{0}} : Groups{};
}

Groups in_updates(const Operator& op) {
  const std::string reduction = op.node.string_attribute("reduction", "none");
  return reduction == "none" || reduction == "add" ? Groups{{0, 2}} : Groups{};
}

Groups in_cache(const Operator& /*op*/) { return {{0, 1}}; }

Groups in_values(const Operator& op) {
  return op.has_output(1) || op.has_output(3) ? Groups{} : Groups{{2, 5}};
}

Groups in_padded(const Operator& op) {
  if (!op.has_input(2)) return {{0}};
  const auto& value = op.graph.value(op.node.inputs[2]).constant;
  const bool is_zero =
      value && value->has_data() &&
      std::ranges::all_of(value->bytes(), [](auto byte) { return byte == std::byte{}; });
  return is_zero ? Groups{{0}} : Groups{};
}

}  // namespace autopar::sharding::linear
