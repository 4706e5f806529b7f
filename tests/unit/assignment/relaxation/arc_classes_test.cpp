#include "assignment/relaxation/arc_classes.h"

#include <catch2/catch.hpp>

#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The problem with every strategy twice, at random places.
AssignmentProblem with_twins(const AssignmentProblem& problem, std::mt19937& random) {
  AssignmentProblem result;
  std::vector<std::vector<std::size_t>> originals;
  for (const auto& node : problem.nodes) {
    auto& strategies = originals.emplace_back();
    for (std::size_t s = 0; s < node.costs.size(); ++s) strategies.insert(strategies.end(), 2, s);
    std::shuffle(strategies.begin(), strategies.end(), random);
    auto& twin = result.nodes.emplace_back();
    for (const std::size_t s : strategies) {
      twin.costs.push_back(node.costs[s]);
      twin.usages.push_back(node.usages[s]);
    }
  }
  for (const auto& edge : problem.edges) {
    std::vector<Cost> costs;
    const std::size_t columns = problem.nodes[at(edge.b)].costs.size();
    for (const std::size_t s : originals[at(edge.a)]) {
      for (const std::size_t t : originals[at(edge.b)])
        costs.push_back(edge.costs[s * columns + t]);
    }
    result.edges.push_back({edge.a, edge.b, std::move(costs)});
  }
  return result;
}

}  // namespace

TEST_CASE("strategies that an edge treats alike are one class, and no others") {
  std::mt19937 random(61);
  for (int round = 0; round < 100; ++round) {
    const AssignmentProblem problem = with_twins(random_problem(random), random);
    const ArcCosts costs(problem, 1);
    const ArcClasses classes(costs);
    CAPTURE(round);
    for (std::size_t k = 0; k < costs.first_arc(costs.nodes()); ++k) {
      const ArcCosts::Arc& arc = costs.arc(k);
      const ArcClasses::Arc& small = classes.arc(k);
      const std::size_t own = costs.strategies(at(arc.node));
      const std::size_t others = costs.strategies(at(arc.other));
      const std::size_t columns = small.own->representatives.size();
      REQUIRE(2 * columns <= own);
      REQUIRE(2 * small.others->representatives.size() <= others);
      REQUIRE(small.costs.size() == columns * small.others->representatives.size());
      for (std::size_t t = 0; t < others; ++t) {
        for (std::size_t s = 0; s < own; ++s) {
          const std::size_t row = at(small.others->of[t]);
          REQUIRE(small.costs[row * columns + at(small.own->of[s])] == costs.row(arc, t)[s]);
        }
      }
      for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t d = 0; d < c; ++d) {
          bool differ = false;
          for (std::size_t t = 0; t < others; ++t) {
            const double* row = costs.row(arc, t);
            differ =
                differ || row[small.own->representatives[c]] != row[small.own->representatives[d]];
          }
          REQUIRE(differ);
        }
      }
    }
  }
}
