#include "sharding/discovery/smaller_instance.h"

#include <map>
#include <set>

#include "sharding/discovery/shard_runner.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::ValueId;

/// Loops of fewer rounds tell little.
constexpr std::int64_t least_extent = 16;
constexpr std::int64_t primes[] = {2, 3, 5, 7};

/// Whether the output's dimensions are as inferred, once those are divided that have to be.
bool divide_output(Shape& extents, const std::optional<Shape>& inferred, std::int64_t divisor) {
  if (!inferred || inferred->size() != extents.size()) return false;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if ((*inferred)[d] == extents[d]) continue;
    if ((*inferred)[d] * divisor != extents[d]) return false;
    extents[d] = (*inferred)[d];
  }
  return true;
}

/// With all inputs' extents that are `extent` in the whole divided; nullopt where the operator does
/// not follow.
std::optional<Graph> divided(Graph smaller, const Graph& whole, std::int64_t extent,
                             std::int64_t divisor) {
  for (const ValueId id : smaller.inputs) {
    Shape& extents = smaller.value(id).shape;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (whole.value(id).shape[d] != extent) continue;
      if (extents[d] % divisor != 0) return std::nullopt;
      extents[d] /= divisor;
    }
  }
  const auto inferred = inferred_outputs(smaller, smaller.nodes.front());
  if (!inferred) return std::nullopt;
  for (const auto& [id, output] : *inferred) {
    if (!divide_output(smaller.value(id).shape, output.shape, divisor)) return std::nullopt;
  }
  return smaller;
}

/// By what the extent is now: those that inputs have in the whole, greatest first.
std::multimap<std::int64_t, std::int64_t, std::greater<>> extents_of(const Graph& smaller,
                                                                     const Graph& whole) {
  std::map<std::int64_t, std::int64_t> now;
  for (const ValueId id : smaller.inputs)
    for (std::size_t d = 0; d < whole.value(id).shape.size(); ++d)
      now[whole.value(id).shape[d]] = smaller.value(id).shape[d];
  std::multimap<std::int64_t, std::int64_t, std::greater<>> extents;
  for (const auto& [before, after] : now) extents.emplace(after, before);
  return extents;
}

/// By one step; nullopt where no extent can be divided.
std::optional<Graph> one_step_smaller(const Graph& smaller, const Graph& whole) {
  for (const auto& [after, before] : extents_of(smaller, whole)) {
    for (const std::int64_t prime : primes) {
      if (after / prime < least_extent) break;
      if (auto next = divided(smaller, whole, before, prime)) return next;
    }
  }
  return std::nullopt;
}

/// The common divisor of all dimensions that the split has; 1 where they differ.
std::int64_t divisor_of(const DiscoveredSplit& split, const Graph& smaller, const Graph& whole) {
  std::set<std::int64_t> divisors;
  const auto add = [&](const std::vector<ValueId>& values, const std::vector<int>& dims) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      if (dims[t] < 0) continue;
      divisors.insert(whole.value(values[t]).shape[dims[t]] /
                      smaller.value(values[t]).shape[dims[t]]);
    }
  };
  add(smaller.nodes.front().inputs, split.inputs);
  add(smaller.nodes.front().outputs, split.outputs);
  return divisors.size() == 1 ? *divisors.begin() : 1;
}

}  // namespace

std::int64_t elements_of_node(const Graph& graph) {
  std::int64_t elements = 0;
  for (const auto* values : {&graph.nodes.front().inputs, &graph.nodes.front().outputs})
    for (const ValueId id : *values)
      if (id != graph::no_value) elements += graph::num_elements(graph.value(id).shape);
  return elements;
}

std::optional<Graph> smaller_instance(const Graph& graph, std::int64_t most_elements) {
  std::optional<Graph> smaller = graph;
  while (smaller && elements_of_node(*smaller) > most_elements)
    smaller = one_step_smaller(*smaller, graph);
  return smaller;
}

Discovery enlarged(Discovery discovery, const Graph& smaller, const Graph& whole) {
  for (DiscoveredSplit& split : discovery.splits)
    if (!split.count.any()) split.size *= divisor_of(split, smaller, whole);
  return discovery;
}

}  // namespace autopar::sharding
