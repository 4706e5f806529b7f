#pragma once

#include "graph/contrib/body_builder.h"
#include "graph/own_operators.h"

/// Ensembles of decision trees, however an operator's attributes tell them, as the tables of
/// TreeSums.
namespace autopar::graph::ml {

/// What a leaf adds to one of the targets.
struct Vote {
  std::int64_t target = 0;
  double weight = 0;
};

struct TreeNode {
  TreeMode mode = TreeMode::leaf;
  bool missing_is_true = false;
  std::int64_t feature = 0;
  double split = 0;
  std::size_t first = 0;    ///< where the comparison is true
  std::size_t second = 0;   ///< where it is not
  std::vector<Vote> votes;  ///< of a leaf
};

/// Node 0 is the root.
using Tree = std::vector<TreeNode>;

/// The trees of TreeEnsembleClassifier and TreeEnsembleRegressor, whose attributes for votes begin
/// with `votes`, "class" or "target". Throws Error where nodes do not make trees.
std::vector<Tree> listed_trees(const BodyBuilder& body, const std::string& votes);

/// The trees of TreeEnsemble, a test for membership as a chain of comparisons.
std::vector<Tree> indexed_trees(const BodyBuilder& body);

/// [rows, targets] of the votes that rows of `x` get, which is of `type`, float32 or float64.
Operand tree_sums(const std::vector<Tree>& trees, const Operand& x, DataType type,
                  std::int64_t targets, const std::string& aggregate);

}  // namespace autopar::graph::ml
