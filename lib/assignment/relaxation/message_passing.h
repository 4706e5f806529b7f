#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "assignment/arc_costs.h"
#include "assignment/relaxation/arc_classes.h"
#include "assignment/relaxation/usage_prices.h"

namespace autopar::assignment {

/// An order of the nodes in which the bound rises soon: by degree, largest first; then the trees
/// that hang on the rest, parents before children.
std::vector<int> sweep_order(const AssignmentProblem& problem);

/// A lower bound on the cost of a problem's choices under prices instead of limits, raised sweep by
/// sweep, and a choice by rounding in each. Rounding errors only lower the bound. Nodes should be
/// in `sweep_order`.
class MessagePassing {
 public:
  explicit MessagePassing(const ArcCosts& costs);

  /// Takes effect with the next sweep.
  void set_prices(const UsagePrices& prices);
  /// By arc and its node's strategy (ArcCosts::Arc::message), what has moved into the node.
  const std::vector<double>& messages() const { return messages_; }
  /// Whole numbers. Takes effect when prices are set.
  void set_messages(std::vector<double> messages) { messages_ = std::move(messages); }
  /// One pass forward over all nodes and one back.
  void sweep();
  /// The costs that a sweep looks at.
  double work_of_sweep() const { return 4 * classes_.work(); }
  /// The bound in multiples of 1 / scale, of costs and prices; nullopt where numbers grew too large
  /// to be exact.
  std::optional<double> bound() const;
  /// The choice of the last sweep: node by node, the best given those chosen before.
  const Choice& choice() const { return choice_; }
  /// By strategy of all nodes, its min-marginal: a lower bound on the choices that hold it. No two
  /// edges may join the same nodes.
  std::vector<double> min_marginals() const;

 private:
  void pull(std::size_t k);
  void visit(std::size_t i, bool forward);
  void choose(std::size_t i);

  const ArcCosts& costs_;
  const ArcClasses classes_;
  const std::size_t core_;        ///< nodes from here on form trees, parents first
  std::vector<double> beliefs_;   ///< by strategy of all nodes: its cost, price and messages
  std::vector<double> messages_;  ///< by arc and its node's strategy
  Choice choice_;
  std::vector<double> scratch_;
  std::vector<double> of_classes_;
  std::vector<double> of_other_classes_;
  double bound_ = 0;
  double largest_ = 0;  ///< absolute belief met
};

}  // namespace autopar::assignment
