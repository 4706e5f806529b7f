#include "search/stages/similar_pipeline.h"

#include <utility>

#include "base/error.h"
#include "search/similar_plan.h"

namespace autopar::search {

using graph::NodeId;

LayerCuts similar_cuts(const graph::Graph& graph, const graph::StageCutter& cutter,
                       const std::map<std::string, int>& stage_of, int stages) {
  const auto nodes = static_cast<NodeId>(graph.nodes.size());
  LayerCuts cuts(static_cast<std::size_t>(stages), 0);
  cuts.push_back(nodes);
  int last = 0;
  for (NodeId n = 0; n < nodes; ++n) {
    const auto known = stage_of.find(graph.node(n).name);
    if (known == stage_of.end()) continue;
    const int stage = known->second;
    if (stage < last)
      fail(
          "operator '{}' of stage {} stands behind one of stage {}; partition the model with this "
          "shape, too",
          graph.node(n).name, stage, last);
    last = stage;
    for (int behind = stage + 1; behind < stages; ++behind)
      cuts[static_cast<std::size_t>(behind)] = n + 1;
  }
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    if (cuts[s] >= cuts[s + 1])
      fail("stage {} has no operator left; partition the model with this shape, too", s);
    if (!cutter.keeps_states(cuts[s]))
      fail("stage {} would have a part of a state alone; partition the model with this shape, too",
           s);
  }
  return cuts;
}

plan::PipelinePlan similar_pipeline(const graph::Graph& graph, std::span<const OtherStage> other) {
  if (other.size() == 1)
    return plan::one_stage_plan(graph,
                                similar_plan(graph, other.front().entries, other.front().cost));
  std::map<std::string, int> stage_of;
  for (std::size_t s = 0; s < other.size(); ++s)
    for (const Pin& entry : other[s].entries)
      if (entry.inputs) stage_of.emplace(entry.name, static_cast<int>(s));
  const graph::StageCutter cutter(graph);
  const LayerCuts cuts = similar_cuts(graph, cutter, stage_of, static_cast<int>(other.size()));
  plan::PipelinePlan plan;
  for (std::size_t s = 0; s < other.size(); ++s) {
    plan::StagePlan& stage = plan.stages.emplace_back();
    stage.stage = cutter.cut(cuts[s], cuts[s + 1]);
    stage.first_rank = other[s].first_rank;
    stage.plan = similar_plan(stage.stage.graph, other[s].entries, other[s].cost);
  }
  return plan;
}

}  // namespace autopar::search
