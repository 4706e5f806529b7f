#include "assignment/min_plus.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

using namespace autopar::assignment;

TEST_CASE("the least and the greatest of any number of values are found wherever they are") {
  std::mt19937 random(8);
  for (std::size_t count = 1; count < 30; ++count) {
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values(count);
      for (double& value : values) value = static_cast<double>(random() % 1000) - 500;
      const auto [least, greatest] = least_and_greatest(values);
      CAPTURE(values);
      REQUIRE(least == *std::ranges::min_element(values));
      REQUIRE(greatest == *std::ranges::max_element(values));
    }
  }
}

TEST_CASE("sums are lowered to the least of all rows, for any numbers of rows and columns") {
  std::mt19937 random(7);
  const auto draw = [&] {
    return random() % 9 == 0 ? std::numeric_limits<double>::infinity()
                             : static_cast<double>(random() % 1'000'000);
  };
  for (std::size_t rows = 0; rows < 11; ++rows) {
    for (std::size_t columns = 0; columns < 40; ++columns) {
      std::vector<double> costs(rows * columns);
      std::vector<double> others(rows);
      std::vector<double> least(columns);
      for (auto* numbers : {&costs, &others, &least})
        for (double& number : *numbers) number = draw();
      std::vector<double> expected = least;
      for (std::size_t c = 0; c < columns; ++c)
        for (std::size_t t = 0; t < rows; ++t)
          if (others[t] + costs[t * columns + c] < expected[c])
            expected[c] = others[t] + costs[t * columns + c];
      lower_to_sums(costs.data(), others, least);
      CAPTURE(rows, columns);
      REQUIRE(least == expected);
    }
  }
}
