#include "base/checked.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

namespace {

using namespace autopar;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
using Factors = std::array<std::int64_t, 3>;

}  // namespace

TEST_CASE("sums and products that fit are what they are", "[checked]") {
  CHECK(checked_add(most - 1, 1, "n") == most);
  CHECK(checked_subtract(least + 1, 1, "n") == least);
  CHECK(checked_multiply(-(most / 2), 2, "n") == -(most - 1));
  CHECK(checked_product(Factors{2, 3, 5}, "n") == 30);
  CHECK(checked_product(std::array<std::int64_t, 0>{}, "n") == 1);
}

TEST_CASE("sums and products beyond 64 bits are told, with what they count", "[checked]") {
  CHECK_THROWS_WITH(checked_add(most, 1, "the end of tensor 'w'"),
                    "the end of tensor 'w': 9223372036854775807 + 1 is beyond 64 bits");
  CHECK_THROWS_AS(checked_add(least, -1, "n"), Error);
  CHECK_THROWS_AS(checked_subtract(0, least, "n"), Error);
  CHECK_THROWS_AS(checked_multiply(least, -1, "n"), Error);
  CHECK_THROWS_AS(checked_product(Factors{most, 2, 1}, "n"), Error);
}

TEST_CASE("a factor of 0 does not excuse the others", "[checked]") {
  CHECK(checked_product(Factors{0, 7, 9}, "n") == 0);
  CHECK_THROWS_AS(checked_product(Factors{0, most, 2}, "n"), Error);
  CHECK_THROWS_AS(checked_product(Factors{most, 2, 0}, "n"), Error);
}

TEST_CASE("saturated sums stop at the limits", "[checked]") {
  CHECK(saturated_add(most, 5) == most);
  CHECK(saturated_add(least, -5) == least);
  CHECK(saturated_add(2, -5) == -3);
  CHECK(saturated_subtract(least, 5) == least);
  CHECK(saturated_multiply(most, 2) == most);
  CHECK(saturated_multiply(most, -2) == least);
  CHECK(saturated_multiply(least, least) == most);
  CHECK(saturated_multiply(-3, 5) == -15);
  CHECK(saturated_subtract(0, least) == most);
  CHECK(saturated_subtract(2, 5) == -3);
}

TEST_CASE("a cast keeps the number or throws", "[checked]") {
  CHECK(checked_cast<std::int32_t>(std::int64_t{-7}, "n") == -7);
  CHECK_THROWS_AS(checked_cast<std::uint8_t>(std::int64_t{-7}, "n"), Error);
  CHECK_THROWS_AS(checked_cast<std::int32_t>(std::int64_t{1} << 31, "n"), Error);
  CHECK(checked_cast<std::int32_t>(-7.9, "n") == -7);
  CHECK_THROWS_WITH(checked_cast<std::int64_t>(std::numeric_limits<float>::quiet_NaN(), "depth"),
                    "depth: nan is no integer of 64 bits");
}

TEST_CASE("no number beyond the type is cut to it", "[checked]") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double beyond : {infinity, -infinity, 9223372036854775808.0, 1e30})
    CHECK_FALSE(truncated<std::int64_t>(beyond).has_value());
  CHECK(truncated<std::int64_t>(-9223372036854775808.0) == least);
  CHECK(truncated<std::int32_t>(2147483647.5) == 2147483647);
  CHECK_FALSE(truncated<std::int32_t>(2147483648.0F).has_value());
  CHECK_FALSE(truncated<std::uint8_t>(-1.0F).has_value());
  CHECK(truncated<std::uint8_t>(-0.5F) == 0);
}
