#include "search/explanation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "plan_pricing.h"
#include "unit/assignment/brute_force.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using Catch::Matchers::Contains;
using search::Explanation;
using Proof = search::Explanation::Proof;

namespace {

constexpr double rounding = 1e-10;  // costs are whole picoseconds in the search

/// `copies` times, apart from each other, y = x + W2 gelu(W1 x).
graph::Graph blocks(int copies, std::int64_t rows, std::int64_t width, std::int64_t hidden) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  for (int copy = 0; copy < copies; ++copy) {
    const std::string of = copy == 0 ? "" : std::to_string(copy);
    const auto value = [&](const std::string& name, const graph::Shape& shape) {
      return graph.add_value({name + of, graph::DataType::float32, shape, std::nullopt});
    };
    const auto weight = [&](const std::string& name, const graph::Shape& shape) {
      return graph.add_constant(name + of, graph::Tensor::zeros(graph::DataType::float32, shape));
    };
    const auto x = value("x", {rows, width});
    const auto w1 = weight("w1", {width, hidden});
    const auto w2 = weight("w2", {hidden, width});
    const auto a = value("a", {rows, hidden});
    const auto b = value("b", {rows, hidden});
    const auto c = value("c", {rows, width});
    const auto y = value("y", {rows, width});
    graph.nodes.push_back({"up" + of, "MatMul", "", {x, w1}, {a}, {}});
    graph.nodes.push_back({"gelu" + of, "Gelu", "", {a}, {b}, {}});
    graph.nodes.push_back({"down" + of, "MatMul", "", {b, w2}, {c}, {}});
    graph.nodes.push_back({"add" + of, "Add", "", {c, x}, {y}, {}});
    graph.inputs.push_back(x);
    graph.outputs.push_back(y);
  }
  return graph;
}

/// The least price of a plan with each strategy of the operator, by the strategy's text.
std::map<std::string, double> least_prices(const graph::Graph& graph, const cost::CostModel& cost,
                                           graph::NodeId node, std::int64_t weight_limit) {
  std::map<std::string, double> least;
  for_each_plan(
      graph, cost.mesh(), [&](const graph::Value& v) { return places_of(v, cost.mesh()); },
      [&](const plan::Plan& plan) {
        if (weight_bytes_of(graph, plan) > weight_limit) return;
        const double price = price_of(graph, cost, plan);
        const auto [entry, is_new] =
            least.try_emplace(to_string(plan.operators[static_cast<std::size_t>(node)]), price);
        entry->second = std::min(entry->second, price);
      });
  return least;
}

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
constexpr double plenty = 60;

void check_against(const std::map<std::string, double>& least, const Explanation& explanation) {
  // Strategies of equal text differ in nothing that costs.
  std::map<std::string, double> found;
  for (const auto& candidate : explanation.candidates) {
    CAPTURE(to_string(candidate.strategy));
    REQUIRE(candidate.proof == Proof::exact);
    const double with_it = explanation.plan_seconds + candidate.worse_by_seconds;
    const auto [entry, is_new] = found.try_emplace(to_string(candidate.strategy), with_it);
    entry->second = std::min(entry->second, with_it);
    CHECK(candidate.worse_by_seconds >= -rounding);
    CHECK(candidate.worse_by_at_least_seconds == candidate.worse_by_seconds);
  }
  for (const auto& [strategy, seconds] : found) {
    CAPTURE(strategy);
    CHECK(least.contains(strategy));
  }
  for (const auto& [strategy, seconds] : least) {
    CAPTURE(strategy);
    // Partial values are only kept where that may save something.
    if (strategy.find("+P") != std::string::npos && !found.contains(strategy)) continue;
    CHECK(found.at(strategy) == Approx(seconds).margin(rounding));
  }
}

}  // namespace

TEST_CASE("what a candidate would cost equals brute force") {
  Random random(5);
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 2));
    const cost::CostModel cost = model_of(pick(random, 0, 1) ? "2" : "3");
    double plans = 1;
    for (const graph::Node& node : graph.nodes) plans *= node.inputs.size() > 1 ? 8 : 5;
    if (plans > 400) continue;
    CAPTURE(round);
    const auto solved = search_plan(graph, cost, within("device"));
    const auto node = static_cast<graph::NodeId>(graph.nodes.size()) - 1;
    const Explanation explanation = explain_operator(graph, cost, solved, node, plenty);
    CHECK(explanation.plan_seconds == Approx(solved.plan.predicted.cost_seconds));
    check_against(least_prices(graph, cost, node, no_limit), explanation);
    ++compared;
  }
  CHECK(compared > 20);
}

TEST_CASE("candidates of a block's product equal brute force within a fair share of the weights") {
  const graph::Graph graph = blocks(1, 512, 32, 64);
  const cost::CostModel cost = model_of("2");
  const auto solved = search_plan(graph, cost, within("fair"));
  const std::int64_t share = 2 * 32 * 64 * 4 * 5 / 4 / 2;
  for (const graph::NodeId node : {0, 2}) {
    const auto least = least_prices(graph, cost, node, share);
    check_against(least, explain_operator(graph, cost, solved, node, plenty));
    // Without time, what is said still holds.
    for (const auto& candidate : explain_operator(graph, cost, solved, node, 0).candidates) {
      const double truth =
          least.at(to_string(candidate.strategy)) - solved.plan.predicted.cost_seconds;
      CHECK(candidate.proof != Proof::none_fits);
      CHECK(candidate.worse_by_at_least_seconds <= truth + rounding);
      if (candidate.proof != Proof::unknown) CHECK(candidate.worse_by_seconds >= truth - rounding);
      if (candidate.proof == Proof::exact) {
        CHECK(candidate.worse_by_seconds == Approx(truth).margin(rounding));
      }
    }
  }
}

TEST_CASE("the chosen candidate comes first and changes nothing, the others are by their cost") {
  const graph::Graph graph = blocks(1, 512, 48, 96);
  const cost::CostModel cost = model_of("2");
  const auto solved = search_plan(graph, cost, within("fair"));
  const Explanation explanation = explain_operator(graph, cost, solved, 2, plenty);
  const auto& chosen = explanation.candidates.front();
  CHECK(chosen.is_chosen);
  CHECK(chosen.strategy == solved.plan.operators[2]);
  CHECK(chosen.neighbours.empty());
  CHECK(chosen.others_changed == 0);
  CHECK(chosen.worse_by_seconds == 0);
  CHECK(std::ranges::count_if(explanation.candidates, &Explanation::Candidate::is_chosen) == 1);
  CHECK(std::ranges::is_sorted(explanation.candidates.begin() + 1, explanation.candidates.end(), {},
                               &Explanation::Candidate::worse_by_seconds));
}

TEST_CASE("what a candidate forces is told: reshardings, neighbours and those further on") {
  const graph::Graph graph = blocks(1, 512, 48, 96);
  const cost::CostModel cost = model_of("2");
  const auto solved = search_plan(graph, cost, within("fair"));
  const Explanation explanation = explain_operator(graph, cost, solved, 1, plenty);
  int forcing = 0;
  for (const auto& candidate : explanation.candidates) {
    if (candidate.is_chosen) continue;
    CAPTURE(to_string(candidate.strategy));
    // Its input or output has another spec, so something around it is otherwise.
    const bool forces = !candidate.neighbours.empty() || !candidate.reshardings.empty() ||
                        candidate.worse_by_seconds > 0;
    CHECK(forces);
    for (const auto& change : candidate.neighbours) {
      CHECK((change.name == "up" || change.name == "down"));
      CHECK(change.from != change.to);
      ++forcing;
    }
    for (const auto& resharding : candidate.reshardings) {
      CHECK(resharding.input == "a");
      CHECK(resharding.to == candidate.strategy.inputs[0]);
      CHECK(resharding.seconds > 0);
    }
  }
  CHECK(forcing > 0);
}

TEST_CASE("what has nothing to do with the operator stays as it was") {
  const graph::Graph graph = blocks(3, 256, 32, 64);
  const cost::CostModel cost = model_of("4");
  const auto solved = search_plan(graph, cost, within("device"));
  for (const auto& candidate : explain_operator(graph, cost, solved, 4, plenty).candidates) {
    CAPTURE(to_string(candidate.strategy));
    CHECK(candidate.others_changed <= 2);  // the rest of its block
    for (const auto& change : candidate.neighbours) CHECK(change.name.back() == '1');
  }
}

TEST_CASE("a candidate that no plan within the memory limit has is told from costly ones") {
  Random random(9);
  int none_fits = 0;
  int fits = 0;
  for (int round = 0; round < 40; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(1);
    const cost::CostModel cost = model_of("2");
    auto solved = search_plan(graph, cost, within("device"));
    // A limit that the plan itself just keeps.
    const auto usage = usage_over_time(solved.built.problem, solved.choice);
    for (auto& limit : solved.built.problem.usage_limits) limit = std::ranges::max(usage);
    const auto explanation = explain_operator(graph, cost, solved, 0, plenty);
    for (const auto& candidate : explanation.candidates) {
      assignment::AssignmentProblem fixed = solved.built.problem;
      const auto& choices = solved.built.operators[0]->choices;
      for (std::size_t k = 0; k < choices.size(); ++k) {
        if (!(choices[k] == candidate.strategy)) fixed.nodes[0].costs[k] = assignment::impossible;
      }
      const auto best = solve_by_brute_force(fixed);
      CAPTURE(round, to_string(candidate.strategy));
      CHECK((best.status == assignment::Status::infeasible) ==
            (candidate.proof == Proof::none_fits));
      if (candidate.proof == Proof::none_fits) {
        ++none_fits;
        continue;
      }
      ++fits;
      CHECK(explanation.plan_seconds + candidate.worse_by_seconds ==
            Approx(static_cast<double>(best.cost) * search::seconds_per_cost).margin(rounding));
    }
  }
  CHECK(none_fits > 5);
  CHECK(fits > 40);
}

TEST_CASE("an operator is found by name or glob, and the nearest names are told where it is not") {
  const graph::Graph graph = blocks(2, 8, 8, 8);
  CHECK(search::find_operator(graph, "down") == 2);
  CHECK(search::find_operator(graph, "down1") == 6);
  CHECK(search::find_operator(graph, "g*1") == 5);
  CHECK(search::find_operator(graph, "???") == 3);
  CHECK_THROWS_WITH(search::find_operator(graph, "gelo"),
                    Contains("no operator 'gelo'") && Contains("'gelu', 'gelu1'"));
  CHECK_THROWS_WITH(search::find_operator(graph, "dow"), Contains("are 'down', 'down1'"));
  CHECK_THROWS_AS(search::find_operator(graph::Graph{}, "x"), Error);
}

TEST_CASE("an explanation's JSON has every candidate") {
  const graph::Graph graph = blocks(1, 64, 32, 64);
  const cost::CostModel cost = model_of("2");
  const auto solved = search_plan(graph, cost, within("fair"));
  const Explanation explanation = explain_operator(graph, cost, solved, 0, plenty);
  const auto json = nlohmann::json::parse(explanation_json(graph, explanation));
  CHECK(json["operator"] == "up");
  CHECK(json["op_type"] == "MatMul");
  REQUIRE(json["candidates"].size() == explanation.candidates.size());
  CHECK(json["candidates"][0]["chosen"] == true);
  CHECK(json["candidates"][1]["worse_by_seconds"] == explanation.candidates[1].worse_by_seconds);
  CHECK(json["candidates"][1]["strategy"] == to_string(explanation.candidates[1].strategy));
}
