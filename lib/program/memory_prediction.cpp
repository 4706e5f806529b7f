#include "program/memory_prediction.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "sharding/sharding_rule.h"

namespace autopar::program {

namespace {

using graph::BufferLifetime;
using Kind = std::pair<sharding::TensorShardSpec, graph::Shape>;

std::set<Kind> kinds_of(const Program& program) {
  std::set<Kind> kinds;
  for (const Version& version : program.versions)
    kinds.emplace(version.spec, program.graph.value(version.value).shape);
  return kinds;
}

/// A factor's size and the axes that split it.
using SplitFactor = std::pair<std::int64_t, std::vector<int>>;

/// The factors of which a rule asks where a rank's share begins.
std::set<SplitFactor> placed_factors(const Program& program) {
  std::set<SplitFactor> placed;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node == graph::no_node) continue;
    const auto rule =
        sharding::rule_or_replicated(program.graph, program.graph.node(instruction.node));
    for (std::size_t f = 0; f < rule.factors.size(); ++f)
      if (rule.placed.find(rule.factors[f].letter) != std::string::npos)
        placed.emplace(rule.factors[f].size, program.operators[instruction.node].factor_axes[f]);
  }
  return placed;
}

/// All that a rank's memory follows from: the extent of each share, and whether shares of placed
/// factors begin at 0 (ShardingRule::localize may look at no more).
std::vector<std::int64_t> likeness(const std::set<Kind>& kinds, const std::set<SplitFactor>& placed,
                                   const sharding::DeviceMesh& mesh, int rank) {
  std::vector<std::int64_t> likeness;
  for (const auto& [spec, shape] : kinds)
    for (const graph::Range& range : sharding::local_ranges(spec, shape, mesh, rank))
      likeness.push_back(range.size());
  const std::vector<int> coordinates = mesh.coordinates(rank);
  for (const auto& [size, axes] : placed)
    likeness.push_back(sharding::shard_range({0, size}, axes, mesh, coordinates).begin == 0 ? 1
                                                                                            : 0);
  return likeness;
}

std::vector<MemoryPeak::Buffer> alive_at(int step, const graph::Graph& graph,
                                         const std::vector<BufferLifetime>& lifetimes) {
  std::vector<MemoryPeak::Buffer> alive;
  for (std::size_t id = 0; id < lifetimes.size(); ++id) {
    const BufferLifetime& buffer = lifetimes[id];
    if (buffer.bytes == 0 || step < buffer.first || step > buffer.last) continue;
    alive.push_back({graph.values[id].name, graph.values[id].shape, buffer.bytes});
  }
  std::ranges::stable_sort(alive, std::ranges::greater{}, &MemoryPeak::Buffer::bytes);
  return alive;
}

bool is_alike(const graph::Value& a, const graph::Value& b) {
  if (a.type != b.type || a.shape != b.shape) return false;
  if (!a.constant || !b.constant) return !a.constant && !b.constant;
  return a.constant->is_contiguous() == b.constant->is_contiguous();
}

bool is_alike(const graph::Attribute& a, const graph::Attribute& b) {
  return std::visit(
      [&]<typename T>(const T& value) {
        const T* other = std::get_if<T>(&b);
        if constexpr (std::is_same_v<T, graph::Tensor>)
          return other != nullptr && value.data() == other->data();
        else
          return other != nullptr && value == *other;
      },
      a);
}

/// A collective's attributes name ranks.
bool is_alike(const graph::Node& a, const graph::Node& b) {
  return a.op_type == b.op_type && a.domain == b.domain && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.body == b.body &&
         (a.domain == graph::collective_domain ||
          std::ranges::equal(a.attributes, b.attributes, [](const auto& x, const auto& y) {
            return x.first == y.first && is_alike(x.second, y.second);
          }));
}

}  // namespace

std::vector<std::vector<int>> alike_ranks(const Program& program) {
  const std::set<Kind> kinds = kinds_of(program);
  const std::set<SplitFactor> placed = placed_factors(program);
  std::map<std::vector<std::int64_t>, std::vector<int>> classes;
  for (int rank = 0; rank < program.mesh.num_devices(); ++rank) {
    classes[likeness(kinds, placed, program.mesh, rank)].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [likeness, ranks] : classes) result.push_back(std::move(ranks));
  return result;
}

bool are_alike(const graph::Graph& a, const graph::Graph& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs &&
         std::ranges::equal(
             a.values, b.values,
             [](const graph::Value& x, const graph::Value& y) { return is_alike(x, y); }) &&
         std::ranges::equal(a.nodes, b.nodes, [](const graph::Node& x, const graph::Node& y) {
           return is_alike(x, y);
         });
}

std::int64_t most_run_bytes(const graph::Graph& rank_graph, int microbatches) {
  return graph::arena_bound(rank_graph) + graph::slot_bytes(rank_graph, microbatches);
}

MemoryPrediction predict_memory(const graph::Graph& rank_graph, int microbatches,
                                const RunBytes& run_bytes) {
  const std::int64_t weight_bytes = graph::constant_bytes(rank_graph);
  return {weight_bytes, weight_bytes + run_bytes(rank_graph, microbatches)};
}

std::vector<std::int64_t> activation_bytes(const RunGraph& run) {
  std::vector<std::int64_t> usage(run.graph.nodes.size() + 1, 0);
  for (const BufferLifetime& buffer : run.lifetimes) {
    if (buffer.bytes == 0) continue;
    usage[buffer.first] += buffer.bytes;
    usage[static_cast<std::size_t>(buffer.last) + 1] -= buffer.bytes;
  }
  std::inclusive_scan(usage.begin(), usage.end(), usage.begin());
  usage.pop_back();
  return usage;
}

MemoryPeak find_memory_peak(const RunGraph& run, std::size_t most_listed) {
  MemoryPeak peak;
  peak.weight_bytes = run.predicted.weight_bytes;
  if (!run.graph.nodes.empty()) {
    const auto usage = activation_bytes(run);
    const auto step = std::ranges::max_element(usage) - usage.begin();
    const graph::Node& node = run.graph.nodes[step];
    peak.node = node.name;
    peak.op_type = qualified_op_type(node);
    peak.activation_bytes = usage[step];
    peak.largest = alive_at(static_cast<int>(step), run.graph, run.lifetimes);
    peak.largest.resize(std::min(peak.largest.size(), most_listed));
  }
  peak.reserve_bytes = run.predicted.peak_bytes - peak.weight_bytes - peak.activation_bytes;
  return peak;
}

}  // namespace autopar::program
