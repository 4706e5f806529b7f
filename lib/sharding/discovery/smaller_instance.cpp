#include "sharding/discovery/smaller_instance.h"

#include <algorithm>
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

SmallerInstance whole_instance(const Graph& graph) {
  SmallerInstance whole{graph, {}};
  for (const graph::Value& value : graph.values) whole.divisors.emplace_back(value.shape.size(), 1);
  return whole;
}

std::int64_t extent_before(const SmallerInstance& instance, ValueId id, std::size_t dim) {
  return instance.graph.value(id).shape[dim] * instance.divisors[id][dim];
}

void divide(SmallerInstance& instance, ValueId id, std::size_t dim, std::int64_t divisor) {
  instance.graph.value(id).shape[dim] /= divisor;
  instance.divisors[id][dim] *= divisor;
}

/// Whether the output's dimensions are as inferred, once those are divided that have to be.
bool divide_output(SmallerInstance& instance, ValueId id, const std::optional<Shape>& shape,
                   std::int64_t divisor) {
  const Shape before = instance.graph.value(id).shape;
  if (!shape || shape->size() != before.size()) return false;
  const Shape& inferred = *shape;
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (inferred[d] == before[d]) continue;
    if (inferred[d] * divisor != before[d]) return false;
    divide(instance, id, d, divisor);
  }
  return true;
}

/// With all inputs' extents that were `extent` divided; nullopt where the operator does not follow.
std::optional<SmallerInstance> divided(SmallerInstance instance, std::int64_t extent,
                                       std::int64_t divisor) {
  for (const ValueId id : instance.graph.inputs) {
    for (std::size_t d = 0; d < instance.graph.value(id).shape.size(); ++d) {
      if (extent_before(instance, id, d) != extent) continue;
      if (instance.graph.value(id).shape[d] % divisor != 0) return std::nullopt;
      divide(instance, id, d, divisor);
    }
  }
  const auto inferred = inferred_outputs(instance.graph, instance.graph.nodes.front());
  if (!inferred) return std::nullopt;
  for (const auto& [id, output] : *inferred) {
    if (!divide_output(instance, id, output.shape, divisor)) return std::nullopt;
  }
  return instance;
}

/// By what the extent is now: those that inputs had before, greatest first.
std::multimap<std::int64_t, std::int64_t, std::greater<>> extents_of(
    const SmallerInstance& instance) {
  std::map<std::int64_t, std::int64_t> now;
  for (const ValueId id : instance.graph.inputs)
    for (std::size_t d = 0; d < instance.graph.value(id).shape.size(); ++d)
      now[extent_before(instance, id, d)] = instance.graph.value(id).shape[d];
  std::multimap<std::int64_t, std::int64_t, std::greater<>> extents;
  for (const auto& [before, after] : now) extents.emplace(after, before);
  return extents;
}

/// By one step; nullopt where no extent can be divided.
std::optional<SmallerInstance> one_step_smaller(const SmallerInstance& instance) {
  for (const auto& [after, before] : extents_of(instance)) {
    for (const std::int64_t prime : primes) {
      if (after / prime < least_extent) break;
      if (auto smaller = divided(instance, before, prime)) return smaller;
    }
  }
  return std::nullopt;
}

/// The common divisor of all dimensions that the split has; 1 where they differ.
std::int64_t divisor_of(const DiscoveredSplit& split, const SmallerInstance& smaller) {
  std::set<std::int64_t> divisors;
  const graph::Node& node = smaller.graph.nodes.front();
  const auto add = [&](const std::vector<ValueId>& values, const std::vector<int>& dims) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      if (dims[t] < 0) continue;
      divisors.insert(smaller.divisors[values[t]][dims[t]]);
    }
  };
  add(node.inputs, split.inputs);
  add(node.outputs, split.outputs);
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

std::optional<SmallerInstance> smaller_instance(const Graph& graph, std::int64_t most_elements) {
  std::optional<SmallerInstance> instance = whole_instance(graph);
  while (instance && elements_of_node(instance->graph) > most_elements)
    instance = one_step_smaller(*instance);
  return instance;
}

Discovery enlarged(Discovery discovery, const SmallerInstance& smaller) {
  for (DiscoveredSplit& split : discovery.splits)
    if (!split.count.any()) split.size *= divisor_of(split, smaller);
  return discovery;
}

}  // namespace autopar::sharding
