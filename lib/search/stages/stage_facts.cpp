#include "search/stages/stage_facts.h"

#include <algorithm>
#include <array>

#include "assignment/deadline.h"
#include "base/in_parallel.h"
#include "search/operator_bound.h"
#include "search/operator_strategies.h"
#include "search/stages/stage_pins.h"

namespace autopar::search {

namespace {

/// The part of all time for finding which values are kept partial in which stage.
constexpr double share_of_flows = 0.1;

/// Those of layers [begin, end) as a stage, by NodeId.
std::vector<sharding::PartialUse> partial_uses(const StageFacts& facts, int begin, int end) {
  const graph::Graph graph = facts.cut(begin, end).graph;
  return partial_uses(graph, rules_of(graph), facts.options.keep_partial);
}

bool are_alike(const sharding::PartialUse& a, const sharding::PartialUse& b) {
  return a.groups == b.groups && a.kept == b.kept && a.reduces_later == b.reduces_later;
}

void find_views(StageFacts& facts, const cost::DeviceModel& device) {
  for (std::size_t size = 0; size < facts.submeshes.size(); ++size) {
    auto& views = facts.views_of_size.emplace_back();
    for (const sharding::DeviceMesh& mesh : facts.submeshes[size].views) {
      views.push_back(static_cast<int>(facts.views.size()));
      facts.views.push_back({{device, mesh}, static_cast<int>(size)});
    }
  }
}

std::vector<std::vector<assignment::Cost>> operator_bounds(const StageFacts& facts,
                                                           const cost::DeviceModel& device) {
  std::vector<int> devices;
  for (const Submesh& submesh : facts.submeshes) devices.push_back(submesh.devices);
  std::vector<std::vector<assignment::Cost>> bounds;
  for (const std::vector<double>& shares : least_operator_seconds(devices, facts.graph, device)) {
    std::vector<assignment::Cost>& sums = bounds.emplace_back();
    assignment::Cost sum = 0;
    int layer = 0;
    for (std::size_t n = 0; n <= shares.size(); ++n) {
      for (; layer <= facts.layers() && facts.cuts[layer] == static_cast<graph::NodeId>(n); ++layer)
        sums.push_back(sum);
      if (n == shares.size()) break;
      // Rounded down, and further than the rounding of either goes.
      sum += std::max<assignment::Cost>(
          0, static_cast<assignment::Cost>(shares[n] / seconds_per_cost) - 1);
    }
  }
  return bounds;
}

std::vector<std::int64_t> weights_of_runs(const StageFacts& facts) {
  const graph::Graph& graph = facts.graph;
  std::vector<std::int64_t> weights(facts.cuts.size() * facts.cuts.size(), 0);
  for (int begin = 0; begin < facts.layers(); ++begin) {
    std::vector<bool> is_counted(graph.values.size(), false);
    std::int64_t bytes = 0;
    for (int end = begin + 1; end <= facts.layers(); ++end) {
      for (graph::NodeId n = facts.cuts[end - 1]; n < facts.cuts[end]; ++n) {
        for (const graph::ValueId input : graph.node(n).inputs) {
          if (!graph.is_constant(input) || is_counted[input]) continue;
          is_counted[input] = true;
          bytes += graph.value(input).constant->size_bytes();
        }
      }
      weights[facts.place(begin, end)] = bytes;
    }
  }
  return weights;
}

std::map<std::string, std::pair<int, int>> readers_of_stored(const StageFacts& facts) {
  const graph::Graph& graph = facts.graph;
  const std::vector<graph::NodeId> producers = graph::producers(graph);
  std::map<std::string, std::pair<int, int>> readers;
  for (int layer = 0; layer < facts.layers(); ++layer) {
    for (graph::NodeId n = facts.cuts[layer]; n < facts.cuts[layer + 1]; ++n) {
      for (const graph::ValueId input : graph.node(n).inputs) {
        if (input == graph::no_value || producers[input] != graph::no_node) continue;
        const auto [entry, is_new] =
            readers.try_emplace(graph.value(input).name, std::pair(layer, layer));
        entry->second.second = layer;
      }
    }
  }
  return readers;
}

std::vector<std::pair<int, int>> find_pinned_stages(const StageFacts& facts) {
  const std::map<std::string, int> stage_of = stages_of(facts.options.pins);
  std::map<int, std::pair<int, int>> layers;
  for (int layer = 0; layer < facts.layers(); ++layer)
    for (graph::NodeId n = facts.cuts[layer]; n < facts.cuts[layer + 1]; ++n) {
      const auto pinned = stage_of.find(facts.graph.node(n).name);
      if (pinned == stage_of.end()) continue;
      layers.try_emplace(pinned->second, layer, layer).first->second.second = layer;
    }
  std::vector<std::pair<int, int>> stages;
  for (const auto& [stage, range] : layers) stages.push_back(range);
  return stages;
}

std::vector<bool> find_flows_alike(const StageFacts& facts) {
  std::vector<bool> flows_alike(facts.classes.count, false);
  const SearchOptions& options = facts.options;
  const auto has_one = [](const Submesh& submesh) { return submesh.devices == 1; };
  const bool has_blocks =
      options.method == SearchMethod::ilp && !std::ranges::all_of(facts.submeshes, has_one);
  if (!has_blocks || !options.pins.empty()) return flows_alike;
  const assignment::Deadline deadline(share_of_flows * options.time_limit_seconds);
  std::map<int, std::pair<int, int>> runs;  // one for each class
  for (int begin = 0; begin < facts.layers(); ++begin) {
    for (int end = begin + 1; end <= facts.layers(); ++end)
      runs.try_emplace(facts.classes.of(begin, end), begin, end);
  }
  std::map<int, std::vector<sharding::PartialUse>> of_layers;
  for (int layer = 0; layer < facts.layers(); ++layer) {
    auto& uses = of_layers[facts.classes.of(layer, layer + 1)];
    if (uses.empty()) uses = partial_uses(facts, layer, layer + 1);
  }
  const std::vector<std::pair<int, std::pair<int, int>>> all(runs.begin(), runs.end());
  std::vector<char> are_safe(all.size(), 0);
  in_parallel(all.size(), [&](std::size_t i) {
    if (deadline.is_over()) return;
    const auto [begin, end] = all[i].second;
    const auto uses = partial_uses(facts, begin, end);
    std::size_t op = 0;
    bool is_alike = true;
    for (int layer = begin; layer < end; ++layer) {
      for (const auto& use : of_layers.at(facts.classes.of(layer, layer + 1)))
        is_alike = is_alike && are_alike(use, uses[op++]);
    }
    are_safe[i] = is_alike;
  });
  for (std::size_t i = 0; i < all.size(); ++i) flows_alike[all[i].first] = are_safe[i];
  return flows_alike;
}

}  // namespace

bool StageFacts::breaks_stages(int begin, int end) const {
  int whole = 0;
  for (const auto& [first, last] : pinned_stages) {
    if (last < begin || first >= end) continue;
    if (first < begin || last >= end) return true;
    ++whole;
  }
  return whole > 1;
}

StageFacts find_stage_facts(const graph::Graph& graph, const graph::StageCutter& cutter,
                            LayerCuts cuts, const cost::DeviceModel& device,
                            std::vector<Submesh> submeshes, const SearchOptions& options) {
  const std::array told_apart{device.fused.get(), device.without_memory.get(),
                              device.channels_last.get()};
  RunClasses classes = find_run_classes(graph, cutter, cuts, told_apart, !options.pins.empty());
  StageFacts facts{.graph = graph,
                   .cutter = cutter,
                   .options = options,
                   .cuts = std::move(cuts),
                   .submeshes = std::move(submeshes),
                   .classes = std::move(classes)};
  find_views(facts, device);
  facts.operator_bounds = operator_bounds(facts, device);
  facts.weights = weights_of_runs(facts);
  facts.readers = readers_of_stored(facts);
  facts.pinned_stages = find_pinned_stages(facts);
  facts.flows_alike = find_flows_alike(facts);
  return facts;
}

}  // namespace autopar::search
