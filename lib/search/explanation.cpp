#include "search/explanation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "assignment/local_search/needless_changes.h"
#include "base/json_fields.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "search/problem_parts.h"
#include "sharding/connect.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using Candidate = Explanation::Candidate;
using Proof = Explanation::Proof;

constexpr std::size_t most_suggestions = 3;
/// Edges from the operator within which a first solution may change the plan.
constexpr int near_radius = 16;
/// The part of the time that it may take.
constexpr double near_share = 0.25;

std::vector<std::string> nearest_names(const Graph& graph, std::string_view name) {
  std::vector<std::tuple<bool, std::size_t, std::string>> ranked;
  for (const graph::Node& node : graph.nodes) {
    const bool is_part = node.name.find(name) != std::string::npos;
    ranked.emplace_back(!is_part, edit_distance(node.name, name), node.name);
  }
  std::ranges::sort(ranked);
  ranked.resize(std::min(ranked.size(), most_suggestions));
  std::vector<std::string> names;
  for (const auto& [is_no_part, distance, nearest] : ranked) names.push_back(nearest);
  return names;
}

/// Nodes within `radius` edges of `start`.
std::vector<bool> nodes_near(const assignment::AssignmentProblem& problem, int start, int radius) {
  const auto links = assignment::links_of(problem);
  std::vector<bool> is_near(problem.nodes.size(), false);
  is_near[start] = true;
  std::vector<int> frontier{start};
  for (int step = 0; step < radius; ++step) {
    std::vector<int> next;
    for (const int node : frontier) {
      for (const auto& [edge, neighbour] : links[node]) {
        if (!is_near[neighbour]) next.push_back(neighbour);
        is_near[neighbour] = true;
      }
    }
    frontier = std::move(next);
  }
  return is_near;
}

/// What is asked, and what is known before any candidate is tried.
struct Question {
  const Graph& graph;
  const cost::CostModel& cost;
  const plan::Plan& plan;
  const SearchReport& report;
  const PlanProblem& built;
  const std::vector<int>& choice;
  std::size_t part;
  NodeId node;
  assignment::Cost plan_cost{};
  std::vector<bool> is_near{};    ///< by node of the problem
  std::set<NodeId> neighbours{};  ///< operators that make the node's inputs or read its outputs
  std::set<ValueId> stored{};     ///< the other inputs

  const assignment::AssignmentProblem& problem() const { return built.problem; }
  int problem_node() const { return built.parts[part].first_node + node; }
};

/// Fills in what is around the operator.
Question with_surroundings(Question question) {
  const Graph& graph = question.graph;
  const NodeId id = question.node;
  question.plan_cost = assignment::cost_of(question.problem(), question.choice);
  question.is_near = nodes_near(question.problem(), question.problem_node(), near_radius);
  const auto producers = graph::producers(graph);
  const auto readers = graph::consumers(graph);
  for (const ValueId input : graph.node(id).inputs) {
    if (input == graph::no_value) continue;
    if (producers[input] == graph::no_node)
      question.stored.insert(input);
    else
      question.neighbours.insert(producers[input]);
  }
  for (const ValueId output : graph.node(id).outputs)
    if (output != graph::no_value)
      question.neighbours.insert(readers[output].begin(), readers[output].end());
  return question;
}

/// First with all as it was but around the operator, then with all free: what the first finds
/// stands where the time ends the second, or is as good.
assignment::Solution solve_fixed_to(const Question& question, int strategy, double seconds) {
  const Stopwatch stopwatch;
  assignment::AssignmentProblem fixed = question.problem();
  fix(fixed.nodes[question.problem_node()], strategy);
  assignment::AssignmentProblem around = fixed;
  for (std::size_t node = 0; node < question.is_near.size(); ++node)
    if (!question.is_near[node]) fix(around.nodes[node], question.choice[node]);
  const assignment::Solution near = solve(around, {.time_limit_seconds = seconds * near_share});
  const double left = std::max(0.0, seconds - stopwatch.seconds());
  assignment::Solution best = solve(fixed, {.time_limit_seconds = left});
  if (!near.choice.empty() && near.cost <= best.cost) {
    best.choice = near.choice;
    best.cost = near.cost;
    best.status =
        best.cost == best.lower_bound ? assignment::Status::optimal : assignment::Status::feasible;
  }
  return best;
}

std::vector<Explanation::Resharding> reshardings_of(const Question& question,
                                                    const sharding::OpShardSpec& strategy,
                                                    const plan::Plan& plan) {
  const graph::Node& node = question.graph.node(question.node);
  std::vector<Explanation::Resharding> reshardings;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == graph::no_value) continue;
    const graph::Value& value = question.graph.value(node.inputs[i]);
    const auto& from = plan.spec_of(question.graph, node.inputs[i]);
    const auto& to = strategy.inputs[i];
    if (from == to) continue;
    const auto chain = sharding::connect(from, to, value.shape, value.type, question.cost.mesh(),
                                         question.cost.step_price(question.cost.order_of(value)));
    reshardings.push_back({value.name, from, to, chain.seconds});
  }
  return reshardings;
}

/// Tells of the best plan with the candidate.
void describe(const Question& question, const plan::Plan& plan, Candidate& candidate) {
  candidate.reshardings = reshardings_of(question, candidate.strategy, plan);
  const plan::Plan& before = question.plan;
  const auto add = [&](const std::string& name, const auto& from, const auto& to) {
    if (from != to) candidate.neighbours.push_back({name, to_string(from), to_string(to)});
  };
  for (const ValueId input : question.stored)
    add(question.graph.value(input).name, before.stored.at(input), plan.stored.at(input));
  for (std::size_t i = 0; i < plan.operators.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (question.neighbours.contains(id) && id != question.node)
      add(question.graph.nodes[i].name, before.operators[i], plan.operators[i]);
    else if (id != question.node && before.operators[i] != plan.operators[i])
      ++candidate.others_changed;
  }
}

Candidate explain(const Question& question, int strategy, double seconds) {
  const int node = question.problem_node();
  const OperatorStrategies& strategies = *question.built.operators[node];
  Candidate result;
  result.strategy = strategies.choices[strategy];
  result.own_seconds =
      in_seconds(strategies.costs[strategy]) / question.built.parts[question.part].weight;
  if (question.choice[node] == strategy) {
    result.is_chosen = true;
    result.proof = Proof::exact;
    describe(question, question.plan, result);
    return result;
  }
  const assignment::Solution solution = solve_fixed_to(question, strategy, seconds);
  if (solution.status == assignment::Status::infeasible) {
    result.proof = Proof::none_fits;
    return result;
  }
  // No plan costs less than the search's bound, so none with the candidate does.
  result.worse_by_at_least_seconds =
      std::max(in_seconds(solution.lower_bound), question.report.lower_bound_seconds) -
      in_seconds(question.plan_cost);
  if (solution.choice.empty()) return result;
  const std::vector<int> choice = assignment::without_needless_changes(
      question.problem(), question.choice, solution.choice, node);
  result.proof = solution.status == assignment::Status::optimal ? Proof::exact : Proof::bounded;
  result.worse_by_seconds =
      in_seconds(assignment::cost_of(question.problem(), choice) - question.plan_cost);
  if (result.proof == Proof::exact) result.worse_by_at_least_seconds = result.worse_by_seconds;
  describe(question, decode(question.built, choice, question.cost, question.part), result);
  return result;
}

Explanation explain_all(const Question& question, double time_limit_seconds) {
  Explanation explanation{.node = question.node,
                          .plan_seconds = in_seconds(question.plan_cost),
                          .plan_lower_bound_seconds = question.report.lower_bound_seconds,
                          .plan_is_optimal = question.report.proven_optimal};
  const Stopwatch stopwatch;
  const auto count =
      static_cast<int>(question.built.operators[question.problem_node()]->choices.size());
  for (int k = 0; k < count; ++k) {
    const double left = std::max(0.0, time_limit_seconds - stopwatch.seconds());
    explanation.candidates.push_back(explain(question, k, left / (count - k)));
  }
  std::ranges::stable_sort(explanation.candidates, {}, [](const Candidate& each) {
    return std::tuple(!each.is_chosen, !each.has_plan(),
                      each.has_plan() ? each.worse_by_seconds : each.worse_by_at_least_seconds);
  });
  return explanation;
}

constexpr std::string_view proof_names[] = {"exact", "bounded", "unknown", "none-fits"};

}  // namespace

void fields(auto& visit, Like<Explanation::Resharding> auto& each) {
  visit("input", each.input), visit("from", to_string(each.from)), visit("to", to_string(each.to));
  visit("seconds", each.seconds);
}

void fields(auto& visit, Like<Explanation::Change> auto& each) {
  visit("name", each.name), visit("from", each.from), visit("to", each.to);
}

void fields(auto& visit, Like<Candidate> auto& each) {
  visit("strategy", to_string(each.strategy)), visit("chosen", each.is_chosen);
  visit("own_seconds", each.own_seconds);
  visit("proof", proof_names[static_cast<std::size_t>(each.proof)]);
  visit("reshardings", each.reshardings), visit("neighbours_changed", each.neighbours);
  visit("others_changed", each.others_changed);
  if (each.has_plan()) visit("worse_by_seconds", each.worse_by_seconds);
  if (each.proof != Proof::none_fits)
    visit("worse_by_at_least_seconds", each.worse_by_at_least_seconds);
}

NodeId find_operator(const Graph& graph, std::string_view name) {
  const std::string glob(name);
  const auto is_named = [&](const graph::Node& node) { return node.name == name; };
  const auto matches = [&](const graph::Node& node) { return matches_glob(glob, node.name); };
  auto found = std::ranges::find_if(graph.nodes, is_named);
  if (found == graph.nodes.end()) found = std::ranges::find_if(graph.nodes, matches);
  if (found != graph.nodes.end()) return static_cast<NodeId>(found - graph.nodes.begin());
  fail("the model has no operator '{}'; the nearest names are '{}'", name,
       fmt::join(nearest_names(graph, name), "', '"));
}

Explanation explain_operator(const Graph& graph, const cost::CostModel& cost,
                             const SolvedPlan& solved, NodeId node, double time_limit_seconds) {
  return explain_all(with_surroundings({.graph = graph,
                                        .cost = cost,
                                        .plan = solved.plan,
                                        .report = solved.report,
                                        .built = solved.built,
                                        .choice = solved.choice,
                                        .part = 0,
                                        .node = node}),
                     time_limit_seconds);
}

Explanation explain_operator(std::span<const Profile> profiles, const JointPlan& solved,
                             std::size_t profile, NodeId node, double time_limit_seconds) {
  return explain_all(with_surroundings({.graph = profiles[profile].stage->graph,
                                        .cost = *profiles[profile].cost,
                                        .plan = solved.plans[profile],
                                        .report = solved.report,
                                        .built = solved.built,
                                        .choice = solved.choice,
                                        .part = profile,
                                        .node = node}),
                     time_limit_seconds);
}

std::string explanation_json(const Graph& graph, const Explanation& explanation) {
  const graph::Node& node = graph.node(explanation.node);
  return json{{"version", 1},
              {"operator", node.name},
              {"op_type", qualified_op_type(node)},
              {"plan_seconds", explanation.plan_seconds},
              {"plan_lower_bound_seconds", explanation.plan_lower_bound_seconds},
              {"plan_proven_optimal", explanation.plan_is_optimal},
              {"candidates", JsonWriter::write(explanation.candidates)}}
      .dump(2);
}

}  // namespace autopar::search
