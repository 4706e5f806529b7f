#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json_fields.h"
#include "plan/plan.h"

namespace autopar::plan {

void fields(auto& visit, Like<Prediction> auto& predicted) {
  visit("cost_seconds", predicted.cost_seconds);
  visit("communication_seconds", predicted.communication_seconds);
  visit("weight_bytes", predicted.weight_bytes);
  visit("peak_bytes", predicted.peak_bytes);
}

void fields(auto& visit, Like<CollectiveUse> auto& use) {
  visit("kind", use.kind);
  visit("mesh_axes", use.mesh_axes);
  visit("times", use.times);
  visit("bytes", use.bytes);
  visit("seconds", use.seconds);
}

/// plan.json without what a search reports: device, summary (what is predicted) and communication
/// for a person and for compare_plans (plan_comparison.h), and under "operators" an entry for every
/// operator and every stored tensor, stage after stage, in the form that load_pins (pins.h) reads.
/// "mesh" is that of the one stage; a pipeline has "stages" in its place, and "microbatches".
json plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives);

/// One of several profiles' plans.
struct NamedPlan {
  std::string profile;  ///< its binding, "sequence=128"
  double weight = 1;
  const PipelinePlan* plan = nullptr;
  std::vector<CollectiveUse> collectives{};
};

/// The same of several profiles, at least one. "profiles" has what is predicted of each,
/// communication and stages; an entry of "operators" says by "profile" which it is of, but for
/// weights that lie one way in all.
json plan_json(std::span<const NamedPlan> plans, const Prediction& of_all);

}  // namespace autopar::plan
