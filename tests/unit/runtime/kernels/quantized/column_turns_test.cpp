#include "runtime/kernels/quantized/column_turns.h"

#include <catch2/catch.hpp>
#include <vector>

namespace autopar::runtime::testing {
namespace {

TEST_CASE("Turns have every column, begin at multiples of a step and are as long as asked") {
  for (const std::int64_t step : {16, 32})
    for (std::int64_t columns = 1; columns < 300; ++columns)
      for (const std::int64_t fitting : {0, 7, 16, 50, 64, 200, 1000}) {
        const ColumnTurns turns(columns, fitting, step);
        std::vector<int> visits(static_cast<std::size_t>(columns), 0);
        for (std::int64_t turn = 0; turn < turns.count; ++turn) {
          CHECK(turns.first(turn) % step == 0);
          for (std::int64_t i = 0; i < turns.columns; ++i)
            ++visits.at(static_cast<std::size_t>(turns.first(turn) + i));
        }
        CAPTURE(columns, fitting, step);
        CHECK(std::ranges::all_of(visits, [](int count) { return count == 1 || count == 2; }));
        CHECK(turns.columns < std::max(fitting, step) + step);
      }
}

}  // namespace
}  // namespace autopar::runtime::testing
