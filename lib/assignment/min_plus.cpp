#include "assignment/min_plus.h"

#include <algorithm>
#include <cstddef>

#include "base/simd_clones.h"

namespace autopar::assignment {

AUTOPAR_SIMD_CLONES
void lower_to_sums(const double* costs, std::span<const double> others, std::span<double> least) {
  const std::size_t columns = least.size();
  double* const lowered = least.data();
  const double* row = costs;
  std::size_t t = 0;
  // Four rows at a time, so that sums are loaded and stored less often than costs.
  for (; t + 4 <= others.size(); t += 4, row += 4 * columns) {
    const double other[] = {others[t], others[t + 1], others[t + 2], others[t + 3]};
    for (std::size_t c = 0; c < columns; ++c) {
      const double a = std::min(row[c] + other[0], row[columns + c] + other[1]);
      const double b = std::min(row[2 * columns + c] + other[2], row[3 * columns + c] + other[3]);
      lowered[c] = std::min(lowered[c], std::min(a, b));
    }
  }
  for (; t < others.size(); ++t, row += columns) {
    const double other = others[t];
    for (std::size_t c = 0; c < columns; ++c) lowered[c] = std::min(lowered[c], row[c] + other);
  }
}

std::pair<double, double> least_and_greatest(std::span<const double> values) {
  // Several at once, as each comparison waits for the one before.
  constexpr std::size_t lanes = 4;
  double least[lanes];
  double greatest[lanes];
  for (std::size_t k = 0; k < lanes; ++k) least[k] = greatest[k] = values.front();
  std::size_t s = 0;
  for (; s + lanes <= values.size(); s += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) {
      least[k] = std::min(least[k], values[s + k]);
      greatest[k] = std::max(greatest[k], values[s + k]);
    }
  }
  for (; s < values.size(); ++s) {
    least[0] = std::min(least[0], values[s]);
    greatest[0] = std::max(greatest[0], values[s]);
  }
  return {*std::min_element(least, least + lanes), *std::max_element(greatest, greatest + lanes)};
}

}  // namespace autopar::assignment
