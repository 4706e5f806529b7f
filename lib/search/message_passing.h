#pragma once

#include <optional>
#include <vector>

#include "search/arc_costs.h"
#include "search/usage_prices.h"

namespace autopar::search {

/// A lower bound on the cost of a problem's choices under prices instead of limits, raised sweep by
/// sweep, with a choice at each. The bound is exact in whole numbers: rounding only lowers it.
class MessagePassing {
 public:
  explicit MessagePassing(const ArcCosts& costs);

  /// The prices count from the next sweep on.
  void set_prices(const UsagePrices& prices);
  /// Forward over all nodes and back.
  void sweep();
  /// The bound in multiples of 1 / scale, of costs and prices; nullopt where numbers grew too large
  /// to be exact.
  std::optional<double> bound() const;
  /// The choice of the last sweep: node by node, the best beside those chosen before.
  const std::vector<int>& choice() const { return choice_; }
  /// How much dearer the strategy of that place among all nodes' strategies is than its node's best,
  /// as far as the last sweep saw.
  double excess(std::size_t strategy) const { return excess_[strategy]; }
  /// A bound on the choices that hold that strategy.
  double bound_with(std::size_t strategy) const { return bound_before_ + excess_[strategy]; }

 private:
  void pull(const ArcCosts::Arc& arc);
  void visit(std::size_t i, bool forward);
  void choose(std::size_t i);

  const ArcCosts& costs_;
  std::vector<double> beliefs_;   ///< by strategy of all nodes: its cost, price and messages
  std::vector<double> messages_;  ///< by arc and its node's strategy
  std::vector<int> choice_;
  std::vector<double> excess_;
  std::vector<double> scratch_;
  double bound_ = 0;
  double bound_before_ = 0;  ///< the last sweep's way back, whose `excess_` counts from there
  double largest_ = 0;       ///< number met
};

}  // namespace autopar::search
