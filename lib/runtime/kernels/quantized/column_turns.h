#pragma once

#include <algorithm>
#include <cstdint>

namespace autopar::runtime {

/// Columns of a product taken in turns of equally many, each of which begins at a multiple of
/// `step`, where results and bias are aligned: the last turn may compute some again that the one
/// before it had.
struct ColumnTurns {
  std::int64_t columns;    ///< of a turn
  std::int64_t count = 1;  ///< of turns
  std::int64_t apart;      ///< columns from a turn's first to the next one's
  std::int64_t last = 0;   ///< the first column of the last turn

  /// `fitting`: columns that a turn should have at most, a step and what is left over aside.
  ColumnTurns(std::int64_t all_columns, std::int64_t fitting, std::int64_t step)
      : columns(all_columns), apart(std::max(fitting / step, std::int64_t{1}) * step) {
    if (all_columns < apart + step) return;
    columns = apart + all_columns % step;
    last = all_columns - columns;
    count = 1 + (last + apart - 1) / apart;
  }

  std::int64_t first(std::int64_t turn) const { return std::min(turn * apart, last); }
};

}  // namespace autopar::runtime
