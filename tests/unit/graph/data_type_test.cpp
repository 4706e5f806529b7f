#include "graph/data_type.h"

#include <catch2/catch.hpp>

using namespace autopar::graph;

TEST_CASE("the name of every data type parses back to it") {
  for (int number = 1; number <= 26; ++number) {
    const auto type = static_cast<DataType>(number);
    CHECK(parse_data_type(name_of(type)) == type);
  }
  CHECK_THROWS_WITH(parse_data_type("float31"), Catch::Contains("unknown data type 'float31'"));
}

TEST_CASE("four-bit elements are stored two to a byte, two-bit elements four") {
  CHECK(bytes_of(DataType::uint2, 5) == 2);
  CHECK(bytes_of(DataType::int2, 4) == 1);
  CHECK(bytes_of(DataType::int4, 0) == 0);
  CHECK(bytes_of(DataType::int4, 3) == 2);
  CHECK(bytes_of(DataType::float32, 3) == 12);
  CHECK(bytes_of(DataType::complex128, 2) == 32);
}

TEST_CASE("bfloat16 is floating point and bool is not") {
  CHECK(is_floating_point(DataType::bfloat16));
  CHECK_FALSE(is_floating_point(DataType::boolean));
}
