#include "assignment/presolve/reductions.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <set>

#include "assignment/arc_costs.h"
#include "assignment/elimination/elimination.h"
#include "assignment/presolve/presolve.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

CostTable random_table(std::mt19937& random, int rows, int columns) {
  std::vector<Cost> costs;
  for (int k = 0; k < rows * columns; ++k) {
    costs.push_back(draw(random, 0, 9) == 0 ? impossible : draw(random, 0, 30));
  }
  return costs;
}

/// Layers alike, one after the other, each of nodes that are all joined, so that no node has two
/// neighbours; every layer's tables are its own.
AssignmentProblem repeated_layers(int layers, unsigned seed) {
  constexpr int nodes = 4;
  AssignmentProblem problem;
  for (int layer = 0; layer < layers; ++layer) {
    std::mt19937 random(seed);
    for (int i = 0; i < nodes; ++i) {
      std::vector<Cost> costs;
      for (int s = 0; s < 6; ++s) costs.push_back(draw(random, 0, 9));
      problem.nodes.push_back(
          {.costs = costs, .usages = std::vector<std::int64_t>(6, 0), .first = 0, .end = 0});
    }
    const int first = layer * nodes;
    for (int i = 0; i < nodes; ++i) {
      for (int j = 0; j < i; ++j) {
        problem.edges.push_back({first + j, first + i, random_table(random, 6, 6)});
      }
    }
    if (layer == 0) continue;
    for (int i = 0; i < nodes; ++i) {
      problem.edges.push_back({first - nodes + i, first + i, random_table(random, 6, 6)});
    }
  }
  return problem;
}

/// Few tables for many edges, whichever way round, between nodes of two and of three strategies.
AssignmentProblem with_few_tables(std::mt19937& random) {
  std::map<std::size_t, std::vector<CostTable>> tables;  // by size
  for (const int size : {4, 6, 9}) {
    for (int k = 0; k < 2; ++k) {
      tables[static_cast<std::size_t>(size)].push_back(random_table(random, 1, size));
    }
  }
  AssignmentProblem problem;
  const int others = draw(random, 0, 20);  // the more, the fewer edges beside a tree's
  for (int i = 0; i < 7; ++i) {
    auto& node = problem.nodes.emplace_back();
    node.costs = draw(random, 0, 1) == 0 ? std::vector<Cost>{0, 3} : std::vector<Cost>{5, 0, 2};
    node.usages.assign(node.costs.size(), 0);
    const int parent = i == 0 ? 0 : draw(random, 0, i - 1);
    for (int j = 0; j < i; ++j) {
      if (j != parent && draw(random, 0, others) > 0) continue;
      const int ends[] = {i, j};
      const int first = draw(random, 0, 1);
      const auto& known =
          tables[node.costs.size() * problem.nodes[static_cast<std::size_t>(j)].costs.size()];
      problem.edges.push_back(
          {ends[first], ends[1 - first], known[static_cast<std::size_t>(draw(random, 0, 1))]});
    }
  }
  return problem;
}

std::size_t different_tables(const AssignmentProblem& problem) {
  std::set<const void*> identities;
  for (const auto& edge : problem.edges) identities.insert(edge.costs.identity());
  return identities.size();
}

}  // namespace

TEST_CASE("a table that is written to is a table of its own") {
  const CostTable table{1, 2, 3};
  CostTable copy = table;
  CHECK(copy.identity() == table.identity());
  copy.edit()[0] = 7;
  CHECK(copy.identity() != table.identity());
  CHECK(table == CostTable{1, 2, 3});
  CHECK(copy == CostTable{7, 2, 3});
  const void* own = copy.identity();
  copy.edit()[0] = 8;
  CHECK(copy.identity() == own);
  CostTable nothing;
  CHECK(nothing.empty());
  nothing.edit().push_back(4);
  CHECK(nothing == CostTable{4});
}

TEST_CASE("a question asked again has the same answer, another one its own") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Reductions reductions;
    const int own = draw(random, 1, 4);
    const int others = draw(random, 1, 4);
    std::vector<Cost> costs;
    for (int s = 0; s < own; ++s) costs.push_back(draw(random, 0, 9));
    const CostTable table = random_table(random, own, others);
    const auto half_edge = [&](const CostTable& costs_of_edge, bool is_row) {
      return HalfEdge{reductions.unique(costs_of_edge), static_cast<std::size_t>(own),
                      static_cast<std::size_t>(others), is_row};
    };
    const HalfEdge edge = half_edge(table, true);
    const HalfEdge same = half_edge(CostTable(std::vector<Cost>(table.begin(), table.end())), true);
    CAPTURE(round, own, others);
    CHECK(same.table.identity() == edge.table.identity());
    CHECK(reductions.eliminate(costs, {same}) == reductions.eliminate(costs, {edge}));
    CHECK(reductions.normalise(edge.table, edge.others) ==
          reductions.normalise(same.table, same.others));
    // A table that is read the other way round, and other costs, are other questions.
    const HalfEdge turned = half_edge(table, false);
    std::vector<Cost> dearer = costs;
    dearer.back() += 40;
    for (const auto& [node, side] : {std::pair(costs, turned), std::pair(dearer, edge)}) {
      Reductions fresh;
      HalfEdge alone = side;
      alone.table = fresh.unique(CostTable(std::vector<Cost>(table.begin(), table.end())));
      const auto answer = reductions.eliminate(node, {side});
      const auto expected = fresh.eliminate(node, {alone});
      REQUIRE(answer->costs == expected->costs);
      REQUIRE(answer->answers == expected->answers);
      const auto link = reductions.eliminate(node, {side, edge});
      REQUIRE(
          link->costs ==
          fresh.eliminate(node, {alone, {alone.table, edge.own, edge.others, edge.is_row}})->costs);
    }
  }
}

TEST_CASE("what is left of repeated layers shares its tables, however many they are") {
  std::size_t edges = 0;
  for (unsigned seed = 0; seed < 5; ++seed) {
    const auto few = presolve(repeated_layers(6, seed));
    const auto many = presolve(repeated_layers(60, seed));
    CAPTURE(seed);
    REQUIRE(few.has_value() == many.has_value());
    if (!few) continue;
    edges += many->core.edges.size();
    CHECK(different_tables(many->core) == different_tables(few->core));
  }
  CHECK(edges > 1000);
}

TEST_CASE("what the neighbours cannot choose does not count, and is part of the question") {
  Reductions reductions;
  const HalfEdge edge{reductions.unique(CostTable{9, 0, 0, 1}), 2, 2, true};
  const std::vector<Cost> costs{0, 0};
  CHECK(*reductions.dominators(costs, {}, {edge}, {{1, 1}}) == std::vector<int>{0, 1});
  CHECK(*reductions.dominators(costs, {}, {edge}, {{0, 1}}) == std::vector<int>{0, 0});
  CHECK(*reductions.dominators(costs, {}, {edge}, {{1, 0}}) == std::vector<int>{1, 1});
  CHECK(*reductions.dominators(costs, {3, 2}, {edge}, {{0, 1}}) == std::vector<int>{0, 1});
}

TEST_CASE("a dominated strategy never costs less than its dominator, and all others may") {
  std::mt19937 random(47);
  int dominated = 0;
  for (int round = 0; round < 2000; ++round) {
    const int own = draw(random, 2, 5);
    std::vector<Cost> costs;
    for (int s = 0; s < own; ++s) costs.push_back(draw(random, 0, 40));
    std::vector<HalfEdge> edges;
    std::vector<std::vector<char>> is_possible;
    for (int k = draw(random, 0, 3); k > 0; --k) {
      const int others = draw(random, 1, 4);
      const bool is_row = draw(random, 0, 1) == 0;
      edges.push_back({.table = random_table(random, own, others),
                       .own = static_cast<std::size_t>(own),
                       .others = static_cast<std::size_t>(others),
                       .is_row = is_row});
      auto& possible = is_possible.emplace_back();
      for (int t = 0; t < others; ++t) possible.push_back(draw(random, 0, 4) > 0 ? 1 : 0);
    }
    /// The least that a change costs over an edge; nullopt where it may be impossible.
    const auto least_saved = [&](std::size_t k, std::size_t t, std::size_t s) {
      const HalfEdge& edge = edges[k];
      std::optional<Cost> least = impossible;
      for (std::size_t other = 0; other < edge.others; ++other) {
        const Cost worse = edge.table[s * edge.own_step() + other * edge.other_step()];
        const Cost better = edge.table[t * edge.own_step() + other * edge.other_step()];
        if (!is_possible[k][other] || worse >= impossible) continue;
        if (better >= impossible) return std::optional<Cost>();
        least = std::min(*least, worse - better);
      }
      return least;
    };
    const auto dominates = [&](std::size_t t, std::size_t s) {
      Cost saved = costs[s] - costs[t];
      for (std::size_t k = 0; k < edges.size(); ++k) {
        const auto least = least_saved(k, t, s);
        if (!least) return false;
        if (*least == impossible) return true;
        saved += *least;
      }
      return saved >= 0;
    };
    const auto found = *Reductions().dominators(costs, {}, edges, is_possible);
    const auto is_left = [&](std::size_t s) { return found[s] == static_cast<int>(s); };
    CAPTURE(round);
    for (std::size_t s = 0; s < costs.size(); ++s) {
      if (!is_left(s)) {
        ++dominated;
        REQUIRE(dominates(static_cast<std::size_t>(found[s]), s));
        continue;
      }
      for (std::size_t t = 0; t < costs.size(); ++t) {
        if (t != s && is_left(t)) REQUIRE_FALSE(dominates(t, s));
      }
    }
  }
  REQUIRE(dominated > 1000);
}

TEST_CASE("edges that share a table may read it in different ways") {
  std::mt19937 random(71);
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = with_few_tables(random);
    const Solution truth = solve_by_brute_force(problem);
    const auto eliminated = choose_by_elimination(problem);
    CAPTURE(round);
    REQUIRE(eliminated.has_value() == (truth.status == Status::optimal));
    if (eliminated) REQUIRE(cost_of(problem, *eliminated) == truth.cost);
    REQUIRE(solve(problem, {}).cost == truth.cost);
    const ArcCosts costs(problem, 1, 1e6);  // what is impossible costs that
    for (const auto& edge : problem.edges) {
      for (const auto& arc : costs.arcs(static_cast<std::size_t>(edge.a))) {
        if (arc.other != edge.b) continue;
        const std::size_t rows = costs.strategies(static_cast<std::size_t>(edge.a));
        const std::size_t columns = edge.costs.size() / rows;
        for (std::size_t s = 0; s < rows; ++s) {
          for (std::size_t t = 0; t < columns; ++t) {
            const Cost cost = std::min<Cost>(edge.costs[s * columns + t], 1'000'000);
            REQUIRE(costs.row(arc, t)[s] == static_cast<double>(cost));
          }
        }
      }
    }
  }
}

TEST_CASE("repeated layers need not choose alike") {
  // Neighbours must differ, and the first and the last node are drawn to their strategy 0.
  AssignmentProblem problem;
  for (int i = 0; i < 20; ++i) {
    problem.nodes.push_back({.costs = {0, 0, 0}, .usages = {0, 0, 0}, .first = 0, .end = 0});
    if (i > 0) problem.edges.push_back({i - 1, i, {5, 0, 0, 0, 5, 0, 0, 0, 5}});
  }
  problem.nodes.front().costs = {0, 1, 1};
  problem.nodes.back().costs = {0, 1, 1};
  const auto presolved = presolve(problem);
  REQUIRE(presolved);
  CHECK(presolved->constant == 0);
  const auto choice = presolved->original({});
  CHECK(cost_of(problem, choice) == 0);
  const auto eliminated = choose_by_elimination(problem, {.most_cells_of_a_table = 100});
  REQUIRE(eliminated);
  CHECK(cost_of(problem, *eliminated) == 0);
}
