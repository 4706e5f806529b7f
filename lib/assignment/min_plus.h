#pragma once

#include <span>
#include <utility>

namespace autopar::assignment {

/// Lowers each of `least` to the least sum of one of `others` and its cost. `costs` has a row for
/// each of the others, of as many columns as `least`. The result does not depend on the
/// processor's instructions: every sum and minimum is the same double.
void lower_to_sums(const double* costs, std::span<const double> others, std::span<double> least);

/// The least and the greatest of the values, of which there must be at least one.
std::pair<double, double> least_and_greatest(std::span<const double> values);

}  // namespace autopar::assignment
