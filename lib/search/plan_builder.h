#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/cost_model.h"
#include "plan/plan.h"
#include "search/operator_strategies.h"
#include "search/profile.h"
#include "search/search_options.h"

namespace autopar::search {

/// The sharding of a graph, or of several profiles' graphs together, as an assignment problem, and
/// what its strategies mean. Costs are picoseconds, each profile's times its weight.
struct PlanProblem {
  /// A model input or constant: the problem's node and its strategies.
  struct Stored {
    int node = 0;
    std::vector<sharding::TensorShardSpec> specs;
  };
  /// A profile's.
  struct Part {
    double weight = 1;
    int first_node = 0;  ///< operator n of its graph is the problem's node first_node + n
    int end_node = 0;
    std::map<graph::ValueId, std::size_t> stored;  ///< index into PlanProblem::stored
  };
  static constexpr int of_all = -1;

  assignment::AssignmentProblem problem;
  /// By the problem's node; the operators' come first, profile by profile.
  std::vector<std::shared_ptr<const OperatorStrategies>> operators;
  std::vector<Stored> stored;  ///< each weight once, however many profiles have it
  std::vector<Part> parts;     ///< at least one
  std::vector<int> part_of;    ///< by the problem's node; of_all for stored weights
  std::vector<std::string> operators_without_rule;  ///< types, one entry an operator; loops by name

  const Stored& stored_of(graph::ValueId value, std::size_t part = 0) const {
    return stored[parts[part].stored.at(value)];
  }
};

/// Which memory a problem's limits are for.
enum class CountedMemory {
  over_time,  ///< at rest, and while each operator runs
  at_rest     ///< weights and states alone: a far smaller problem, whose bound holds for both
};

/// One problem for all profiles, at least one, joined at weights and states. Weights and states are
/// in memory always, what else a profile has while it runs. Throws Error for a pin that names
/// nothing or that no strategy satisfies.
PlanProblem build_plan_problem(std::span<const Profile> profiles, const SearchOptions& options,
                               CountedMemory counted = CountedMemory::over_time);
/// The problem of one graph. `received`: inputs that come from another mesh.
PlanProblem build_plan_problem(const graph::Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options,
                               std::span<const graph::ValueId> received = {});

/// The plan of one part that a choice stands for, without what it predicts.
plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost, std::size_t part = 0);

/// The seconds of a run of each part, without its weight.
std::vector<double> seconds_by_part(const PlanProblem& built, const std::vector<int>& choice);
/// Bytes at rest of the stored tensors that this part alone does not have: of weights of others.
std::int64_t weight_bytes_of_others(const PlanProblem& built, const std::vector<int>& choice,
                                    std::size_t part);

}  // namespace autopar::search
