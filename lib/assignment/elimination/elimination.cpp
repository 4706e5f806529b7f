#include "assignment/elimination/elimination.h"

#include <memory>
#include <utility>

#include "assignment/elimination/bucket_tree.h"
#include "assignment/memo.h"

namespace autopar::assignment {

namespace {

/// By the strategies of a bucket's separator.
struct Table {
  CostTable costs;           ///< the least of the bucket's subtree
  std::vector<int> answers;  ///< the strategy of its node that has it
};
using Tables = std::vector<std::shared_ptr<const Table>>;

Table table_of(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
               const Tables& tables) {
  std::vector<Cost> costs(tree.cells(bucket), impossible);
  std::vector<int> answers(costs.size(), 0);
  const auto& node = problem.nodes[bucket.node];
  const std::size_t own = node.costs.size();
  tree.for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto& digits) {
    Cost sum = node.costs[digits.back()];
    std::size_t place = 0;
    for (const std::size_t edge : bucket.edges) {
      sum = plus(sum, problem.edges[edge].costs[places[place++]]);
    }
    for (const std::size_t child : bucket.children) {
      sum = plus(sum, tables[child]->costs[places[place++]]);
    }
    if (sum >= costs[cell / own]) return;
    costs[cell / own] = sum;
    answers[cell / own] = static_cast<int>(digits.back());
  });
  return {std::move(costs), std::move(answers)};
}

/// Everything that the bucket's table depends on.
MemoKey key_of(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
               const Tables& tables) {
  MemoKey key;
  key.add(problem.nodes[bucket.node].costs);
  for (const int i : bucket.separator()) key.add(tree.strategies(i));
  for (const auto& steps : tree.strides(bucket)) key.add(steps);
  for (const std::size_t edge : bucket.edges) key.add(problem.edges[edge].costs);
  for (const std::size_t child : bucket.children) key.add(tables[child]->costs);
  return key;
}

}  // namespace

std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem, double most_cells) {
  const auto tree = BucketTree::make(problem, {.most_cells_of_a_table = most_cells});
  if (!tree) return std::nullopt;
  // Isomorphic parts have the same tables.
  Memo<Table> memo;
  Tables tables;
  for (const Bucket& bucket : tree->buckets()) {
    tables.push_back(memo.get(key_of(problem, *tree, bucket, tables),
                              [&] { return table_of(problem, *tree, bucket, tables); }));
  }
  if (!tables.empty() && tables.back()->costs[0] >= impossible) return std::nullopt;
  Choice choice(problem.nodes.size(), 0);
  for (std::size_t k = tables.size(); k-- > 0;) {
    const Bucket& bucket = tree->buckets()[k];
    std::size_t index = 0;
    for (const int j : bucket.separator()) index = index * tree->strategies(j) + choice[j];
    choice[bucket.node] = tables[k]->answers[index];
  }
  return choice;
}

}  // namespace autopar::assignment
