#pragma once

#include <algorithm>

#include "assignment/parameters.h"

namespace autopar::assignment {

/// The price of a single limit. The bound is concave in it, and the sign of a choice's excess over
/// the limit shows on which side of the best price it is. Steps grow while that stays the same and
/// shrink where it changes, as RPROP's do (Riedmiller and Braun 1993). They do not wait for
/// messages to settle: these follow while the price moves little.
class SinglePrice {
 public:
  /// `excess`: usage over the limit at `price`. `first_step`: the length of the first step where
  /// the price is 0. `has_gained`: whether the bound was the best so far.
  double next(double price, double excess, double first_step, bool has_gained,
              const SolverParameters::Relaxation& parameters) {
    if (length_ == 0)
      length_ = price > 0 ? parameters.least_price_step * price : first_step;
    else
      length_ *= (excess > 0) == was_exceeded_ ? parameters.growth_of_price_step
                                               : parameters.shrinking_of_price_step;
    if (!has_gained) least_ *= parameters.shrinking_of_least_price_step;
    length_ = std::max(length_, least_ * parameters.least_price_step * price);
    was_exceeded_ = excess > 0;
    return std::max(0.0, price + (was_exceeded_ ? length_ : -length_));
  }

 private:
  double length_ = 0;  ///< of the last step; 0 before the first
  double least_ = 1;   ///< part of the least length that is left
  bool was_exceeded_ = false;
};

}  // namespace autopar::assignment
