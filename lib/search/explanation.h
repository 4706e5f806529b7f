#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/search_plan.h"

namespace autopar::search {

/// An operator's candidates, and how each would change the plan.
struct Explanation {
  /// An input that must be brought from the spec in which it lies to the one that is read.
  struct Resharding {
    std::string input;
    sharding::TensorShardSpec from;
    sharding::TensorShardSpec to;
    double seconds = 0;  ///< shared with other operators that read it so
  };
  /// A producer, reader or stored input of the operator that is chosen otherwise than in the plan.
  struct Change {
    std::string name;
    std::string from;  ///< text of the strategy, or of the stored tensor's spec
    std::string to;
  };
  enum class Proof {
    exact,     ///< worse_by is what the best plan with the candidate costs more
    bounded,   ///< it is at least worse_by_at_least and at most worse_by
    unknown,   ///< no plan found in time; it is at least worse_by_at_least
    none_fits  ///< no plan within the memory limit has it
  };
  struct Candidate {
    sharding::OpShardSpec strategy;
    bool is_chosen = false;
    double own_seconds = 0;  ///< the operator with its reductions
    Proof proof = Proof::unknown;
    double worse_by_seconds = 0;  ///< below 0 where the plan was not optimal and this is better
    double worse_by_at_least_seconds = 0;
    /// In the best plan found with the candidate; empty where there is none.
    std::vector<Resharding> reshardings;
    std::vector<Change> neighbours;
    int others_changed = 0;  ///< operators beyond the neighbours

    bool has_plan() const { return proof == Proof::exact || proof == Proof::bounded; }
  };
  graph::NodeId node = graph::no_node;
  double plan_seconds = 0;
  double plan_lower_bound_seconds = 0;
  bool plan_is_optimal = false;  ///< proven
  /// The chosen one first, then by worse_by_seconds, those without a plan last.
  std::vector<Candidate> candidates = {};
};

/// The operator of that name, or the first that the glob (`*`, `?`) matches. Throws Error, with the
/// nearest names, where there is none.
graph::NodeId find_operator(const graph::Graph& graph, std::string_view name);

/// Solves anew with the operator fixed to each candidate in turn, all else free, under the limits
/// of the plan; the candidates share the time. What a new plan changes without need, away from the
/// operator, is taken back. Candidates are those that the pins leave.
Explanation explain_operator(const graph::Graph& graph, const cost::CostModel& cost,
                             const SolvedPlan& solved, graph::NodeId node,
                             double time_limit_seconds);

/// The same for an operator of one of several profiles, whose plan is `solved`. Seconds by which
/// plans are worse are of all profiles, each times its weight.
Explanation explain_operator(std::span<const Profile> profiles, const JointPlan& solved,
                             std::size_t profile, graph::NodeId node, double time_limit_seconds);

/// The explanation as JSON's text.
std::string explanation_json(const graph::Graph& graph, const Explanation& explanation);

}  // namespace autopar::search
