#include "search/version_nodes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;
using graph::Value;
using sharding::TensorShardSpec;
using Copy = VersionedTensor::Copy;

constexpr int no_hub = -1;

/// A search may be repeated with a lower limit, of at least this part of the one it was asked for.
constexpr std::int64_t lowest_limit_share = 2;

/// Copies' kinds as numbers, the same for tensors whose copies differ in the same way.
std::vector<int> kinds_of(const std::vector<Copy>& copies) {
  const std::set<Copy> distinct(copies.begin(), copies.end());
  std::vector<int> kinds;
  for (const Copy& copy : copies) {
    kinds.push_back(static_cast<int>(std::distance(distinct.begin(), distinct.find(copy))));
  }
  return kinds;
}

/// By time, how many times before it may exceed their limit.
std::vector<int> full_times_before(const AssignmentProblem& problem, int horizon,
                                   const std::vector<VersionedTensor>& tensors) {
  std::vector<assignment::WideCost> most(horizon + 1, 0);  // changes from time to time
  const auto add = [&](int first, int end, std::int64_t bytes) {
    most[first] += bytes;
    most[end] -= bytes;
  };
  for (const auto& node : problem.nodes) add(node.first, node.end, std::ranges::max(node.usages));
  for (const VersionedTensor& tensor : tensors) {
    for (const Copy& copy : tensor.copies) add(copy.first, copy.end, copy.bytes);
  }
  std::inclusive_scan(most.begin(), most.end(), most.begin());
  std::vector<int> full_before(horizon + 1, 0);
  for (int t = 0; t < horizon; ++t) {
    const bool is_full = most[t] > problem.usage_limits[t] / lowest_limit_share;
    full_before[t + 1] = full_before[t] + (is_full ? 1 : 0);
  }
  return full_before;
}

/// Returns the node that chooses among the sets.
int add_sets(const Value& value, const std::vector<GraphUses::Reader>& readers,
             const VersionedTensor& tensor, const TensorVersions& versions, CostTables& tables,
             AssignmentProblem& problem) {
  const int hub = add_node(problem, 0, 0, std::vector<std::int64_t>(versions.sets.size(), 0));
  add_edge(problem, tensor.producer, hub, tables.making(value, tensor.made, versions));
  for (std::size_t k = 0; k < tensor.read.size(); ++k)
    add_edge(problem, hub, readers[k].node, tables.reading(versions, tensor.read[k]));
  return hub;
}

/// Adds the memory of a set's copies, at times that several versions may share.
void add_copies(const VersionedTensor& tensor, const TensorVersions& versions, int hub,
                AssignmentProblem& problem) {
  std::map<std::pair<int, int>, std::vector<std::int64_t>> usages;  // by times and set
  for (std::size_t v = 0; v < tensor.copies.size(); ++v) {
    const Copy& copy = tensor.copies[v];
    auto& bytes = usages[{copy.first, copy.end}];
    bytes.resize(versions.sets.size(), 0);
    for (std::size_t set = 0; set < bytes.size(); ++set) {
      if (versions.is_in(v, set)) bytes[set] += copy.bytes;
    }
  }
  const std::set<Copy> kinds(tensor.copies.begin(), tensor.copies.end());
  for (std::size_t set = 0; set < versions.sets.size(); ++set) {
    if (versions.sets[set].made == TensorVersions::no_kind) continue;
    const Copy& made = *std::next(kinds.begin(), versions.sets[set].made);
    usages.at({made.first, made.end})[set] -= made.bytes;
  }
  if (usages.size() == 1) {
    const auto& [times, bytes] = *usages.begin();
    AssignmentProblem::Node& node = problem.nodes[hub];
    std::tie(node.first, node.end) = times;
    node.usages = bytes;
    return;
  }
  for (const auto& [times, bytes] : usages)
    add_usage(problem, hub, times.first, times.second, bytes);
}

/// Where there are too many sets, a node for each version with its memory. Without a hub it has the
/// version's price, too.
void add_each_version(const Value& value, const std::vector<GraphUses::Reader>& readers,
                      const VersionedTensor& tensor, const TensorVersions& versions, int hub,
                      CostTables& tables, AssignmentProblem& problem) {
  for (std::size_t v = 0; v < tensor.specs.size(); ++v) {
    // As the tensor was made, left out, or a copy.
    const auto& [first, end, bytes] = tensor.copies[v];
    const int copy = add_node(problem, first, end, {0, 0, bytes});
    std::vector<Cost> making;
    for (const TensorShardSpec& from : *tensor.made) {
      making.push_back(from == tensor.specs[v] ? 0 : impossible);
      making.push_back(0);
      making.push_back(hub == no_hub ? tables.connect_cost(value, from, tensor.specs[v]) : 0);
    }
    add_edge(problem, tensor.producer, copy, std::move(making));
    if (hub != no_hub) {
      std::vector<Cost> having;
      for (std::size_t set = 0; set < versions.sets.size(); ++set) {
        having.insert(having.end(), {0, versions.is_in(v, set) ? impossible : 0, 0});
      }
      add_edge(problem, hub, copy, std::move(having));
      continue;
    }
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      std::vector<Cost> reading;
      for (const TensorShardSpec& spec : *tensor.read[k]) {
        reading.insert(reading.end(), {0, spec == tensor.specs[v] ? impossible : 0, 0});
      }
      add_edge(problem, readers[k].node, copy, std::move(reading));
    }
  }
}

}  // namespace

VersionedTensor versioned_tensor(const graph::Graph& graph, const cost::CostModel& cost,
                                 const GraphUses& uses, graph::ValueId value, int producer,
                                 const SpecList* made, std::vector<const SpecList*> read) {
  VersionedTensor tensor{value, producer, made, std::move(read), {}, {}};
  tensor.specs = specs_read(tensor.read);
  for (const TensorShardSpec& spec : tensor.specs) {
    // Alive from the first operator that may read the version to behind the last one.
    Copy copy{uses.horizon, 0, arena_bytes(graph.value(value), spec, cost)};
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      const SpecList& list = *tensor.read[k];
      if (std::ranges::find(list, spec) == list.end()) continue;
      const graph::NodeId reader = uses.readers[value][k].node;
      copy.first = std::min(copy.first, reader + 1);
      copy.end = std::max(copy.end, reader + 2);
    }
    tensor.copies.push_back(copy);
  }
  return tensor;
}

void add_versions(const graph::Graph& graph, const GraphUses& uses,
                  const std::vector<VersionedTensor>& tensors, CostTables& tables,
                  AssignmentProblem& problem) {
  const std::vector<int> full_before = full_times_before(problem, uses.horizon, tensors);
  for (const VersionedTensor& tensor : tensors) {
    const Value& value = graph.value(tensor.value);
    const std::vector<GraphUses::Reader>& readers = uses.readers[tensor.value];
    const bool may_matter =
        full_before[readers.front().node + 1] < full_before[readers.back().node + 2];
    const TensorVersions& counted =
        tables.versions(tensor.read, may_matter ? kinds_of(tensor.copies) : std::vector<int>{});
    if (!counted.sets.empty()) {
      const int hub = add_sets(value, readers, tensor, counted, tables, problem);
      if (may_matter) add_copies(tensor, counted, hub, problem);
      continue;
    }
    const TensorVersions& versions = tables.versions(tensor.read, {});
    const int hub = versions.sets.empty()
                        ? no_hub
                        : add_sets(value, readers, tensor, versions, tables, problem);
    if (hub == no_hub || may_matter)
      add_each_version(value, readers, tensor, versions, hub, tables, problem);
  }
}

}  // namespace autopar::search
