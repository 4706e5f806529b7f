#include "assignment/elimination/bucket_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/assignment/small_problems.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

std::size_t strategies(const AssignmentProblem& problem, int node) {
  return problem.nodes.at(static_cast<std::size_t>(node)).costs.size();
}

/// Where the strategies lie in a table over some nodes.
std::size_t place_in(const AssignmentProblem& problem, std::span<const int> nodes,
                     const std::vector<int>& choice) {
  std::size_t place = 0;
  for (const int i : nodes) {
    place = place * strategies(problem, i) +
            static_cast<std::size_t>(choice.at(static_cast<std::size_t>(i)));
  }
  return place;
}

}  // namespace

TEST_CASE("each node has its bucket, and each edge and table goes into one that has its nodes") {
  std::mt19937 random(161);
  for (int round = 0; round < 200; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const auto tree = BucketTree::make(problem, {});
    REQUIRE(tree);
    const auto& buckets = tree->buckets();
    REQUIRE(buckets.size() == problem.nodes.size());
    std::vector<int> nodes;
    std::vector<std::size_t> edges;
    std::vector<std::size_t> children;
    for (std::size_t k = 0; k < buckets.size(); ++k) {
      const Bucket& bucket = buckets[k];
      const auto has = [&](int i) { return std::ranges::count(bucket.nodes, i) == 1; };
      CAPTURE(round, k);
      REQUIRE(bucket.nodes.back() == bucket.node);
      nodes.push_back(bucket.node);
      for (const std::size_t edge : bucket.edges) {
        REQUIRE(has(problem.edges.at(edge).a));
        REQUIRE(has(problem.edges.at(edge).b));
        edges.push_back(edge);
      }
      for (const std::size_t child : bucket.children) {
        REQUIRE(child < k);
        REQUIRE(std::ranges::all_of(buckets[child].separator(), has));
        children.push_back(child);
      }
    }
    for (auto* list : {&edges, &children}) {
      std::ranges::sort(*list);
      REQUIRE(std::ranges::adjacent_find(*list) == list->end());
    }
    std::ranges::sort(nodes);
    REQUIRE(std::ranges::adjacent_find(nodes) == nodes.end());
    REQUIRE(edges.size() == problem.edges.size());
    REQUIRE(children.size() + 1 == buckets.size());
  }
}

TEST_CASE("cells are visited in order and know their places in the tables that meet") {
  std::mt19937 random(162);
  for (int round = 0; round < 60; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const auto tree = BucketTree::make(problem, {});
    REQUIRE(tree);
    for (const Bucket& bucket : tree->buckets()) {
      std::size_t visited = 0;
      tree->for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto& digits) {
        REQUIRE(cell == visited++);
        std::vector<int> choice(problem.nodes.size(), 0);
        for (std::size_t k = 0; k < digits.size(); ++k) {
          choice[static_cast<std::size_t>(bucket.nodes[k])] = static_cast<int>(digits[k]);
        }
        REQUIRE(place_in(problem, bucket.nodes, choice) == cell);
        std::vector<std::size_t> expected;
        for (const std::size_t edge : bucket.edges) {
          const int ends[] = {problem.edges[edge].a, problem.edges[edge].b};
          expected.push_back(place_in(problem, ends, choice));
        }
        for (const std::size_t child : bucket.children) {
          expected.push_back(place_in(problem, tree->buckets()[child].separator(), choice));
        }
        REQUIRE(places == expected);
      });
      REQUIRE(visited == tree->cells(bucket) * strategies(problem, bucket.node));
    }
  }
}

TEST_CASE("a tree is not made where its tables are too large or time is over") {
  AssignmentProblem clique;
  clique.nodes.resize(4);
  for (int i = 0; i < 4; ++i) {
    clique.nodes[static_cast<std::size_t>(i)].costs = {0, 0, 0};
    for (int j = 0; j < i; ++j) clique.edges.push_back({j, i, std::vector<Cost>(9, 0)});
  }
  CHECK(BucketTree::make(clique, {.most_cells_of_a_table = 81, .most_cells = 120}));
  CHECK_FALSE(BucketTree::make(clique, {.most_cells_of_a_table = 80}));
  CHECK_FALSE(BucketTree::make(clique, {.most_cells = 119}));
  CHECK_FALSE(BucketTree::make(clique, {.deadline = Deadline(0)}));
  CHECK(BucketTree::make({}, {})->buckets().empty());
}
