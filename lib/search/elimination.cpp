#include "search/elimination.h"

#include "search/bucket_tree.h"
#include "search/saturating.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// By the strategies of a bucket's separator.
struct Table {
  std::vector<Cost> costs;   ///< the least of what is behind the bucket
  std::vector<int> answers;  ///< the strategy of its node that leads to it
};

Table table_of(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
               const std::vector<Table>& tables) {
  Table table;
  table.costs.resize(tree.cells(bucket), impossible);
  table.answers.resize(table.costs.size(), 0);
  const auto& node = problem.nodes[at(bucket.node)];
  const std::size_t own = node.costs.size();
  tree.for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto& digits) {
    Cost sum = node.costs[digits.back()];
    std::size_t place = 0;
    for (const std::size_t edge : bucket.edges) {
      sum = plus(sum, problem.edges[edge].costs[places[place++]]);
    }
    for (const std::size_t child : bucket.children) {
      sum = plus(sum, tables[child].costs[places[place++]]);
    }
    if (sum >= table.costs[cell / own]) return;
    table.costs[cell / own] = sum;
    table.answers[cell / own] = static_cast<int>(digits.back());
  });
  return table;
}

}  // namespace

std::optional<std::vector<int>> choose_by_elimination(const AssignmentProblem& problem,
                                                      double most_cells) {
  const auto tree = BucketTree::make(problem, {.most_cells_of_a_table = most_cells});
  if (!tree) return std::nullopt;
  std::vector<Table> tables;
  for (const Bucket& bucket : tree->buckets()) {
    tables.push_back(table_of(problem, *tree, bucket, tables));
    for (const std::size_t child : bucket.children) tables[child].costs = {};
  }
  if (!tables.empty() && tables.back().costs.front() >= impossible) return std::nullopt;
  std::vector<int> choice(problem.nodes.size(), 0);
  for (std::size_t k = tables.size(); k-- > 0;) {
    const Bucket& bucket = tree->buckets()[k];
    std::size_t index = 0;
    for (const int j : bucket.separator()) index = index * tree->strategies(j) + at(choice[at(j)]);
    choice[at(bucket.node)] = tables[k].answers[index];
  }
  return choice;
}

}  // namespace autopar::search
