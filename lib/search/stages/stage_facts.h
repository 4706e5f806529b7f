#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/cost_model.h"
#include "graph/stage_graph.h"
#include "search/logical_meshes.h"
#include "search/search_plan.h"
#include "search/stages/layers.h"

namespace autopar::search {

/// All that is known of the runs of layers [begin, end) before any of them is searched. Keeps
/// references to the graph, the cutter and the options.
struct StageFacts {
  /// One view of a submesh.
  struct View {
    cost::CostModel model;
    int size;  ///< the submesh's index
  };
  const graph::Graph& graph;
  const graph::StageCutter& cutter;
  const SearchOptions& options;
  LayerCuts cuts;
  std::vector<Submesh> submeshes;
  RunClasses classes;
  std::vector<View> views{};
  std::vector<std::vector<int>> views_of_size{};
  /// By size and layer: the least picoseconds of all operators before the layer.
  std::vector<std::vector<assignment::Cost>> operator_bounds{};
  std::vector<std::int64_t> weights{};  ///< by place(): bytes of all constants
  /// By class: whether its strategies are those of its layers by themselves, so that bounds by
  /// blocks hold.
  std::vector<bool> flows_alike{};
  /// First and last layer of each stage that pins have operators in, in order.
  std::vector<std::pair<int, int>> pinned_stages{};
  /// First and last layer that reads a model input or constant, by its name.
  std::map<std::string, std::pair<int, int>> readers{};

  int layers() const { return static_cast<int>(cuts.size()) - 1; }
  std::size_t place(int begin, int end) const {
    return static_cast<std::size_t>(begin) * cuts.size() + static_cast<std::size_t>(end);
  }
  graph::StageGraph cut(int begin, int end) const { return cutter.cut(cuts[begin], cuts[end]); }
  /// Bytes of a device that may be used.
  std::int64_t capacity() const { return limit_of(options.memory, views.front().model.device()); }
  /// Whether pins' stages would be parted or joined.
  bool breaks_stages(int begin, int end) const;
  /// Whether the weights alone are more than the devices hold.
  bool is_too_large(int size, int begin, int end) const {
    return weights[place(begin, end)] / submeshes[size].devices > capacity();
  }
};

StageFacts find_stage_facts(const graph::Graph& graph, const graph::StageCutter& cutter,
                            LayerCuts cuts, const cost::DeviceModel& device,
                            std::vector<Submesh> submeshes, const SearchOptions& options);

}  // namespace autopar::search
