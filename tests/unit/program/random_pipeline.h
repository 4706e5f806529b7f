#pragma once

#include <vector>

#include "graph/stage_graph.h"
#include "plan/plan.h"
#include "sharding/cross_mesh.h"
#include "unit/program/random_graph.h"

namespace autopar {

inline sharding::DeviceMesh random_mesh(Random& random) {
  static const std::vector<std::vector<int>> meshes{{1}, {2}, {3}, {2, 2}, {1, 2}};
  return sharding::DeviceMesh(any_of(random, meshes));
}

/// Consecutive runs of all nodes.
inline std::vector<graph::NodeId> random_ends(Random& random, graph::NodeId nodes) {
  std::vector<graph::NodeId> ends;
  for (graph::NodeId n = 1; n < nodes; ++n) {
    if (pick(random, 1, 3) == 1 && ends.size() < 3) ends.push_back(n);
  }
  ends.push_back(nodes);
  return ends;
}

inline plan::PipelinePlan random_pipeline(Random& random, const graph::Graph& graph,
                                          int microbatches) {
  plan::PipelinePlan plan;
  plan.microbatches = microbatches;
  const graph::StageCutter cutter(graph);
  graph::NodeId begin = 0;
  for (const graph::NodeId end :
       random_ends(random, static_cast<graph::NodeId>(graph.nodes.size()))) {
    plan::StagePlan& stage = plan.stages.emplace_back();
    stage.stage = cutter.cut(begin, end);
    graph::check_invariants(stage.stage.graph);
    if (plan.stages.size() > 1) {
      const plan::StagePlan& before = plan.stages[plan.stages.size() - 2];
      stage.first_rank = before.first_rank + before.num_devices();
    }
    stage.plan = random_plan(random, stage.stage.graph, random_mesh(random));
    for (const graph::ValueId received : stage.stage.received) {
      const auto allowed =
          sharding::receive_specs(stage.stage.graph.value(received).shape, stage.plan.mesh);
      // Any spec will do, but only such are planned.
      if (pick(random, 1, 4) > 1) stage.plan.stored[received] = any_of(random, allowed);
    }
    begin = end;
  }
  return plan;
}

}  // namespace autopar
