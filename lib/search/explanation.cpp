#include "search/explanation.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "assignment/local_search/needless_changes.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "sharding/connect.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using sharding::OpShardSpec;
using Candidate = Explanation::Candidate;
using Proof = Explanation::Proof;

constexpr std::size_t most_suggestions = 3;
/// Edges from the operator within which a first solution may change the plan.
constexpr int near_radius = 16;
/// The part of the time that it may take.
constexpr double near_share = 0.25;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<std::string> nearest_names(const Graph& graph, std::string_view name) {
  std::vector<std::tuple<bool, std::size_t, std::string>> ranked;
  for (const graph::Node& node : graph.nodes) {
    const bool is_part = node.name.find(name) != std::string::npos;
    ranked.emplace_back(!is_part, edit_distance(node.name, name), node.name);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (const auto& [is_no_part, distance, nearest] : ranked) {
    if (names.size() < most_suggestions) names.push_back(nearest);
  }
  return names;
}

/// Nodes within `radius` edges of `start`.
std::vector<bool> nodes_near(const assignment::AssignmentProblem& problem, int start, int radius) {
  std::vector<std::vector<int>> neighbours(problem.nodes.size());
  for (const auto& edge : problem.edges) {
    neighbours[edge.a].push_back(edge.b);
    neighbours[edge.b].push_back(edge.a);
  }
  std::vector<bool> is_near(problem.nodes.size(), false);
  is_near[start] = true;
  std::vector<int> frontier{start};
  for (int step = 0; step < radius; ++step) {
    std::vector<int> next;
    for (const int node : frontier) {
      for (const int neighbour : neighbours[node]) {
        if (!is_near[neighbour]) next.push_back(neighbour);
        is_near[neighbour] = true;
      }
    }
    frontier = std::move(next);
  }
  return is_near;
}

/// Leaves the node this strategy alone.
void fix(assignment::AssignmentProblem& problem, int node, int strategy) {
  std::vector<assignment::Cost>& costs = problem.nodes[node].costs;
  for (std::size_t k = 0; k < costs.size(); ++k) {
    if (k != at(strategy)) costs[k] = assignment::impossible;
  }
}

class Explainer {
 public:
  Explainer(const Graph& graph, const cost::CostModel& cost, const SolvedPlan& solved, NodeId node)
      : graph_(graph),
        cost_(cost),
        solved_(solved),
        node_(node),
        problem_(solved.built.problem),
        is_near_(nodes_near(problem_, node, near_radius)),
        plan_cost_(assignment::cost_of(problem_, solved.choice)),
        strategies_(*solved.built.operators[node]) {
    find_neighbours();
  }

  Explanation run(double time_limit_seconds) {
    Explanation explanation;
    explanation.node = node_;
    explanation.plan_seconds = static_cast<double>(plan_cost_) * seconds_per_cost;
    explanation.plan_lower_bound_seconds = solved_.report.lower_bound_seconds;
    explanation.plan_is_optimal = solved_.report.proven_optimal;
    const Stopwatch stopwatch;
    const std::size_t count = strategies_.choices.size();
    for (std::size_t k = 0; k < count; ++k) {
      const double left = std::max(0.0, time_limit_seconds - stopwatch.seconds());
      explanation.candidates.push_back(candidate(k, left / static_cast<double>(count - k)));
    }
    std::ranges::stable_sort(explanation.candidates, {}, [](const Candidate& each) {
      const bool has_plan = each.proof == Proof::exact || each.proof == Proof::bounded;
      return std::tuple(!each.is_chosen, !has_plan,
                        has_plan ? each.worse_by_seconds : each.worse_by_at_least_seconds);
    });
    return explanation;
  }

 private:
  void find_neighbours() {
    const auto producers = graph::producers(graph_);
    const auto readers = graph::consumers(graph_);
    const graph::Node& node = graph_.node(node_);
    for (const ValueId input : node.inputs) {
      if (input == graph::no_value) continue;
      const NodeId producer = producers[input];
      if (producer == graph::no_node) {
        stored_.insert(input);
      } else {
        neighbours_.insert(producer);
      }
    }
    for (const ValueId output : node.outputs) {
      if (output == graph::no_value) continue;
      neighbours_.insert(readers[output].begin(), readers[output].end());
    }
  }

  Candidate candidate(std::size_t k, double seconds) {
    Candidate result;
    result.strategy = strategies_.choices[k];
    result.own_seconds = static_cast<double>(strategies_.costs[k]) * seconds_per_cost;
    if (at(solved_.choice[node_]) == k) {
      result.is_chosen = true;
      result.proof = Proof::exact;
      describe(result, solved_.plan);
      return result;
    }
    const assignment::Solution solution = solve_fixed_to(static_cast<int>(k), seconds);
    const auto worse_by = [&](assignment::Cost cost) {
      return static_cast<double>(cost - plan_cost_) * seconds_per_cost;
    };
    if (solution.status == assignment::Status::infeasible) {
      result.proof = Proof::none_fits;
      return result;
    }
    result.worse_by_at_least_seconds = least_worse(solution);
    if (solution.choice.empty()) return result;
    const std::vector<int> choice =
        assignment::without_needless_changes(problem_, solved_.choice, solution.choice, node_);
    const assignment::Cost cost = assignment::cost_of(problem_, choice);
    result.proof = solution.status == assignment::Status::optimal ? Proof::exact : Proof::bounded;
    result.worse_by_seconds = worse_by(cost);
    if (result.proof == Proof::exact) result.worse_by_at_least_seconds = result.worse_by_seconds;
    describe(result, decode(solved_.built, choice, cost_));
    return result;
  }

  /// First with all as it was but around the operator, then with all free: what the first finds
  /// stands where the time ends the second, or is as good.
  assignment::Solution solve_fixed_to(int strategy, double seconds) const {
    const Stopwatch stopwatch;
    assignment::AssignmentProblem fixed = problem_;
    fix(fixed, node_, strategy);
    assignment::AssignmentProblem around = fixed;
    for (std::size_t node = 0; node < is_near_.size(); ++node) {
      if (!is_near_[node]) fix(around, static_cast<int>(node), solved_.choice[node]);
    }
    const assignment::Solution near = solve(around, {.time_limit_seconds = seconds * near_share});
    const double left = std::max(0.0, seconds - stopwatch.seconds());
    assignment::Solution best = solve(fixed, {.time_limit_seconds = left});
    if (!near.choice.empty() && near.cost <= best.cost) {
      best.choice = near.choice;
      best.cost = near.cost;
      best.status = best.cost == best.lower_bound ? assignment::Status::optimal
                                                  : assignment::Status::feasible;
    }
    return best;
  }

  /// No plan costs less than the search's bound, so none with the candidate does.
  double least_worse(const assignment::Solution& solution) const {
    const double bound = std::max(static_cast<double>(solution.lower_bound) * seconds_per_cost,
                                  solved_.report.lower_bound_seconds);
    return bound - static_cast<double>(plan_cost_) * seconds_per_cost;
  }

  void describe(Candidate& candidate, const plan::Plan& plan) const {
    const graph::Node& node = graph_.node(node_);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == graph::no_value) continue;
      const graph::Value& value = graph_.value(node.inputs[i]);
      const auto& from = plan.spec_of(graph_, node.inputs[i]);
      const auto& to = candidate.strategy.inputs[i];
      if (from == to) continue;
      const double seconds =
          sharding::connect(from, to, value.shape, value.type, cost_.mesh(), cost_.step_price())
              .seconds;
      candidate.reshardings.push_back({value.name, from, to, seconds});
    }
    const plan::Plan& before = solved_.plan;
    for (const ValueId input : stored_) {
      const auto& from = before.stored.at(input);
      const auto& to = plan.stored.at(input);
      if (from == to) continue;
      candidate.neighbours.push_back({graph_.value(input).name, to_string(from), to_string(to)});
    }
    for (std::size_t id = 0; id < plan.operators.size(); ++id) {
      const OpShardSpec& from = before.operators[id];
      const OpShardSpec& to = plan.operators[id];
      if (from == to || static_cast<NodeId>(id) == node_) continue;
      if (neighbours_.contains(static_cast<NodeId>(id))) {
        candidate.neighbours.push_back({graph_.nodes[id].name, to_string(from), to_string(to)});
      } else {
        ++candidate.others_changed;
      }
    }
  }

  const Graph& graph_;
  const cost::CostModel& cost_;
  const SolvedPlan& solved_;
  const NodeId node_;
  const assignment::AssignmentProblem& problem_;
  const std::vector<bool> is_near_;  ///< by node of the problem
  const assignment::Cost plan_cost_;
  const OperatorStrategies& strategies_;
  std::set<NodeId> neighbours_;
  std::set<ValueId> stored_;  ///< among the inputs
};

std::string_view name_of(Proof proof) {
  switch (proof) {
    case Proof::exact:
      return "exact";
    case Proof::bounded:
      return "bounded";
    case Proof::unknown:
      return "unknown";
    case Proof::none_fits:
      return "none-fits";
  }
  throw InternalError("internal error: a proof has a name");
}

nlohmann::json candidate_json(const Candidate& candidate) {
  nlohmann::json reshardings = nlohmann::json::array();
  for (const auto& each : candidate.reshardings) {
    reshardings.push_back({{"input", each.input},
                           {"from", to_string(each.from)},
                           {"to", to_string(each.to)},
                           {"seconds", each.seconds}});
  }
  nlohmann::json neighbours = nlohmann::json::array();
  for (const auto& each : candidate.neighbours) {
    neighbours.push_back({{"name", each.name}, {"from", each.from}, {"to", each.to}});
  }
  nlohmann::json json = {{"strategy", to_string(candidate.strategy)},
                         {"chosen", candidate.is_chosen},
                         {"own_seconds", candidate.own_seconds},
                         {"proof", name_of(candidate.proof)},
                         {"reshardings", reshardings},
                         {"neighbours_changed", neighbours},
                         {"others_changed", candidate.others_changed}};
  const bool has_plan = candidate.proof == Proof::exact || candidate.proof == Proof::bounded;
  if (has_plan) json["worse_by_seconds"] = candidate.worse_by_seconds;
  if (candidate.proof != Proof::none_fits) {
    json["worse_by_at_least_seconds"] = candidate.worse_by_at_least_seconds;
  }
  return json;
}

}  // namespace

NodeId find_operator(const Graph& graph, std::string_view name) {
  const std::string glob(name);
  const auto exact = std::ranges::find(graph.nodes, glob, &graph::Node::name);
  if (exact != graph.nodes.end()) return static_cast<NodeId>(exact - graph.nodes.begin());
  const auto matching = std::ranges::find_if(graph.nodes, [&](const graph::Node& node) {
    return fnmatch(glob.c_str(), node.name.c_str(), 0) == 0;
  });
  if (matching != graph.nodes.end()) return static_cast<NodeId>(matching - graph.nodes.begin());
  fail("the model has no operator '{}'; the nearest names are '{}'", name,
       fmt::join(nearest_names(graph, name), "', '"));
}

Explanation explain_operator(const Graph& graph, const cost::CostModel& cost,
                             const SolvedPlan& solved, NodeId node, double time_limit_seconds) {
  return Explainer(graph, cost, solved, node).run(time_limit_seconds);
}

std::string explanation_json(const Graph& graph, const Explanation& explanation) {
  nlohmann::json candidates = nlohmann::json::array();
  for (const Candidate& candidate : explanation.candidates) {
    candidates.push_back(candidate_json(candidate));
  }
  const graph::Node& node = graph.node(explanation.node);
  return nlohmann::json{{"operator", node.name},
                        {"op_type", qualified_op_type(node)},
                        {"plan_seconds", explanation.plan_seconds},
                        {"plan_lower_bound_seconds", explanation.plan_lower_bound_seconds},
                        {"plan_proven_optimal", explanation.plan_is_optimal},
                        {"candidates", candidates}}
      .dump(2);
}

}  // namespace autopar::search
