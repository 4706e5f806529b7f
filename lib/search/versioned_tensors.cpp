#include "search/versioned_tensors.h"

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
using graph::ValueId;
using sharding::TensorShardSpec;
using Copy = VersionedTensor::Copy;

constexpr int no_hub = -1;

/// A search may be repeated with a lower limit, of at least this part of the one it was asked for.
constexpr std::int64_t lowest_limit_share = 2;

void find_copies(const cost::CostModel& cost, int end, VersionedTensor& tensor) {
  tensor.specs = specs_read(tensor.read);
  for (const TensorShardSpec& spec : tensor.specs) {
    // Alive from the first operator that may read the version to behind the last one.
    Copy copy{end, 0, arena_bytes(tensor.value, spec, cost)};
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      const SpecList& list = *tensor.read[k];
      if (std::ranges::find(list, spec) == list.end()) continue;
      const int time = tensor.readers[k] + 1;
      copy.first = std::min(copy.first, time);
      copy.end = std::max(copy.end, time + 1);
    }
    tensor.copies.push_back(copy);
  }
}

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
std::vector<int> full_times_before(const AssignmentProblem& problem,
                                   const std::vector<VersionedTensor>& tensors) {
  const auto horizon = static_cast<int>(problem.usage_limits.size());
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

/// Returns the node that chooses among the ways.
int add_ways(const VersionedTensor& tensor, const TensorVersions& versions, CostTables& tables,
             AssignmentProblem& problem) {
  const int hub = add_node(problem, 0, 0, std::vector<std::int64_t>(versions.num_ways(), 0));
  add_edge(problem, tensor.producer, hub, tables.making(tensor.value, tensor.made, versions));
  for (std::size_t k = 0; k < tensor.read.size(); ++k)
    add_edge(problem, hub, tensor.readers[k],
             tables.reading(tensor.value, versions, tensor.read[k]));
  return hub;
}

/// Adds a node for the ways to have what several readers may read, and an edge for each reader that
/// may read something else.
void add_shared_ways(const VersionedTensor& tensor, const TensorVersions& versions,
                     CostTables& tables, AssignmentProblem& problem) {
  add_ways(tensor, versions, tables, problem);
  for (std::size_t k = 0; k < tensor.read.size(); ++k) {
    const auto is_shared = [&](const TensorShardSpec& spec) { return versions.has(spec); };
    if (std::ranges::all_of(*tensor.read[k], is_shared)) continue;
    add_edge(problem, tensor.producer, tensor.readers[k],
             tables.making_alone(tensor.value, tensor.made, tensor.read[k], versions));
  }
}

/// Where copies' memory does not matter. False, and nothing is added, where there are too many
/// ways.
bool add_ways_to_read(const VersionedTensor& tensor, Copies copies, CostTables& tables,
                      AssignmentProblem& problem) {
  if (const auto& versions = tables.versions(tensor.read, tensor.made); !versions.is_empty()) {
    add_ways(tensor, versions, tables, problem);
    return true;
  }
  const TensorVersions* shared = &tables.shared_versions(tensor.read, tensor.made);
  if (shared->is_empty() && copies == Copies::relaxed)
    shared = &tables.relaxed_versions(tensor.read, tensor.made);
  if (shared->is_empty()) return false;
  add_shared_ways(tensor, *shared, tables, problem);
  return true;
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
void add_each_version(const VersionedTensor& tensor, const TensorVersions& versions, int hub,
                      CostTables& tables, AssignmentProblem& problem) {
  for (std::size_t v = 0; v < tensor.specs.size(); ++v) {
    // As the tensor was made, left out, or a copy.
    const auto& [first, end, bytes] = tensor.copies[v];
    const int copy = add_node(problem, first, end, {0, 0, bytes});
    const TensorShardSpec& to = tensor.specs[v];
    std::vector<Cost> making;
    for (const TensorShardSpec& from : *tensor.made) {
      const Cost price = hub == no_hub ? tables.connect_cost(tensor.value, from, to) : 0;
      making.insert(making.end(), {from == to ? 0 : impossible, 0, price});
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
        reading.insert(reading.end(), {0, spec == to ? impossible : 0, 0});
      }
      add_edge(problem, tensor.readers[k], copy, std::move(reading));
    }
  }
}

}  // namespace

void add_versions(const std::vector<VersionedTensor>& tensors, Copies copies, CostTables& tables,
                  AssignmentProblem& problem) {
  const std::vector<int> full_before = full_times_before(problem, tensors);
  for (const VersionedTensor& tensor : tensors) {
    const bool may_matter =
        full_before[tensor.readers.front() + 1] < full_before[tensor.readers.back() + 2];
    if (!may_matter) {
      if (!add_ways_to_read(tensor, copies, tables, problem))
        add_each_version(tensor, {}, no_hub, tables, problem);
      continue;
    }
    const TensorVersions& counted = tables.counted_versions(tensor.read, kinds_of(tensor.copies));
    if (!counted.is_empty()) {
      add_copies(tensor, counted, add_ways(tensor, counted, tables, problem), problem);
      continue;
    }
    const TensorVersions& versions = tables.counted_versions(tensor.read, {});
    const int hub = versions.is_empty() ? no_hub : add_ways(tensor, versions, tables, problem);
    add_each_version(tensor, versions, hub, tables, problem);
  }
}

std::vector<VersionedTensor> connect_readers(PartContext& context, std::int64_t limit,
                                             std::size_t part, PlanProblem& built) {
  const auto& [values, uses] = std::tie(context.graph.values, context.uses);
  std::vector<VersionedTensor> versioned;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (uses.readers[v].empty()) continue;
    const auto [producer, made] = source_of(context, built, part, static_cast<ValueId>(v));
    VersionedTensor tensor{values[v], producer, made};
    for (const auto& [reader, input] : uses.readers[v]) {
      const int node = uses.node_of(reader);
      tensor.readers.push_back(node);
      tensor.read.push_back(
          context.tables.specs(*built.operators[node], input, &sharding::OpShardSpec::inputs));
    }
    if (tensor.read.size() == 1 && !is_worth_counting(whole_bytes(tensor.value), limit)) {
      add_edge(built.problem, producer, tensor.readers.front(),
               context.tables.connecting(tensor.value, made, tensor.read.front()));
    } else {
      find_copies(context.cost, uses.end, tensor);
      versioned.push_back(std::move(tensor));
    }
  }
  return versioned;
}

}  // namespace autopar::search
