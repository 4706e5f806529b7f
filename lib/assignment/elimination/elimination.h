#pragma once

#include <optional>
#include <vector>

#include "assignment/elimination/bucket_tree.h"
#include "assignment/memo.h"

namespace autopar::assignment {

/// Bucket elimination (bucket_tree.h) without regard to usage, of any problem whose nodes,
/// strategies and edges are those of the one that it is made for. Costs of a node or an edge are
/// not below -`impossible` / 2, and sums of all below `impossible`. Isomorphic parts, such as a
/// model's repeated layers, are eliminated once.
class Elimination {
 public:
  /// nullopt where the limits are exceeded.
  static std::optional<Elimination> make(const AssignmentProblem& problem,
                                         const BucketTree::Limits& limits);

  /// The cells that choose() fills for this problem.
  double cells(const AssignmentProblem& problem) const;

  /// The cheapest choice; nullopt where the deadline came, or where no choice is possible. Adds to
  /// `looked_at` the cells that it fills.
  std::optional<Choice> choose(const AssignmentProblem& problem, const Deadline& deadline,
                               double& looked_at) const;

 private:
  explicit Elimination(BucketTree tree);
  double cells_of(std::size_t bucket) const;
  MemoKey key_of(const AssignmentProblem& problem, std::size_t bucket) const;

  BucketTree tree_;
  std::vector<BucketTree::Strides> strides_;  ///< by bucket
  std::vector<std::size_t> shapes_;           ///< by bucket, equal where all sizes and strides are
};

/// The cheapest choice by elimination; nullopt where it would exceed the limits, too.
std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem,
                                            const BucketTree::Limits& limits = {});

}  // namespace autopar::assignment
