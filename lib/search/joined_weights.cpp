#include "search/joined_weights.h"

#include <algorithm>
#include <set>
#include <string>

namespace autopar::search {

namespace {

using graph::Tensor;

/// Views of one mapped file are told apart by where they lie; what was computed as each graph was
/// read, or a part of it, is compared.
bool has_same_data(const Tensor& a, const Tensor& b) {
  if (!a.has_data() || !b.has_data()) return a.has_data() == b.has_data();
  if (a.same_view(b)) return true;
  if (a.is_mapped() && b.is_mapped()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return std::ranges::equal(a.bytes(), b.bytes());
  return std::ranges::equal(a.contiguous_copy().bytes(), b.contiguous_copy().bytes());
}

bool is_same_weight(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() && has_same_data(a, b);
}

}  // namespace

std::vector<std::map<graph::ValueId, int>> join_weights(
    std::span<const graph::Graph* const> graphs) {
  struct Weight {
    const Tensor* data;
    int number;
  };
  std::multimap<std::string, Weight> by_name;
  int count = 0;
  const auto number_of = [&](const graph::Value& value) {
    const auto [first, end] = by_name.equal_range(value.name);
    const auto known = std::find_if(first, end, [&](const auto& entry) {
      return is_same_weight(*entry.second.data, *value.constant);
    });
    if (known != end) return known->second.number;
    by_name.emplace(value.name, Weight{&*value.constant, count});
    return count++;
  };
  std::vector<std::map<graph::ValueId, int>> numbers;
  for (const graph::Graph* graph : graphs) {
    auto& of_graph = numbers.emplace_back();
    for (std::size_t id = 0; id < graph->values.size(); ++id) {
      const graph::Value& value = graph->values[id];
      if (value.constant) of_graph.emplace(static_cast<graph::ValueId>(id), number_of(value));
    }
  }
  return numbers;
}

std::int64_t joined_weight_bytes(std::span<const graph::Graph* const> graphs) {
  const auto numbers = join_weights(graphs);
  std::set<int> counted;
  std::int64_t bytes = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (const auto& [value, number] : numbers[g])
      if (counted.insert(number).second) bytes += graphs[g]->value(value).constant->size_bytes();
  return bytes;
}

}  // namespace autopar::search
