#include "serving/json_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "unit/serving/names.h"

namespace autopar::serving {
namespace {

Tensor nested(std::string_view text, DataType type) {
  return tensor_of_nested(parse_json(text), type, "input 'x'");
}
std::string nested_text(const Tensor& tensor) {
  std::string text;
  append_nested(text, tensor, "output 'y'");
  return text;
}

TEST_CASE("lists within lists tell a shape, and values their order") {
  const Tensor tensor = nested("[[1, 2, 3], [4, 5, -6]]", DataType::int64);
  CHECK(tensor.shape() == Shape{2, 3});
  CHECK(tensor.to_int64s() == std::vector<std::int64_t>{1, 2, 3, 4, 5, -6});
  CHECK(nested("7", DataType::int8).shape().empty());
  CHECK(nested("[]", DataType::float32).shape() == Shape{0});
  CHECK(nested("[[], []]", DataType::float32).shape() == Shape{2, 0});
  CHECK(nested("[[true], [false]]", DataType::boolean).to_int64s() ==
        std::vector<std::int64_t>{1, 0});
}

TEST_CASE("what is no tensor of its type is refused with a line that tells the value") {
  const auto refused = [](const char* text, DataType type, const char* why) {
    CHECK_THROWS_WITH(nested(text, type), Contains("input 'x'") && Contains(why));
  };
  refused("[[1, 2], [3]]", DataType::int64, "ragged: a list of 1 stands beside one of 2");
  refused("[[1, 2], 3]", DataType::int64, "ragged: 3 stands beside lists");
  refused("[1, [2]]", DataType::int64, "ragged: a list stands beside values");
  refused("[[1], [[2]]]", DataType::int64, "ragged: a list stands beside values");
  refused("[1.5]", DataType::int64, "1.5 is no int64");
  refused("[1.0]", DataType::int32, "1.0 is no int32");
  refused("[\"1\"]", DataType::int32, "\"1\" is no int32");
  refused("[\"NaN\"]", DataType::int32, "\"NaN\" is no int32");
  refused("[null]", DataType::float32, "null is no float32");
  refused("[\"nan\"]", DataType::float32, "\"nan\" is no float32");
  refused("[{}]", DataType::float32, "an object is no float32");
  refused("[1]", DataType::boolean, "give true or false");
  refused("[true]", DataType::float32, "true is no float32");
  refused("[128]", DataType::int8, "128 is beyond int8");
  refused("[-1]", DataType::uint64, "-1 is beyond uint64");
  refused("[18446744073709551615]", DataType::int64, "beyond int64");
  refused("[18446744073709551616]", DataType::uint64, "is no uint64");
  refused("[1e39]", DataType::float32, "beyond float32");
  refused("[65520]", DataType::float16, "65520 is beyond float16");
  refused("[1]", DataType::float8e5m2, "JSON has no float8e5m2");
  refused("[\"0123456789012345678901234567890123456789012345678901234567890123456789\"]",
          DataType::int64, "...");
}

TEST_CASE("ragged lists that begin like a huge tensor take no memory") {
  std::string text;
  for (int dim = 0; dim < 6; ++dim) text += "[";
  for (int dim = 0; dim < 6; ++dim) {
    for (int i = 0; i < 2000; ++i) text += dim == 0 ? (i == 0 ? "0" : ",0") : ",[]";
    text += "]";
  }
  CHECK_THROWS_WITH(nested(text, DataType::float64), Contains("ragged"));
}

TEST_CASE("lists nested without end are refused") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_THROWS_WITH(nested(deep, DataType::float32), Contains("nested more than"));
  const std::string behind = "[0," + deep + "]";
  CHECK_THROWS_WITH(nested(behind, DataType::float32), Contains("ragged"));
}

TEST_CASE("text that is no JSON is a line") {
  for (const char* text : {"", "{\"id\": 1, \"inp", "[1, 2", "nan", "[NaN]", "1e999", "\xff"})
    CHECK_THROWS_WITH(parse_json(text), Contains("this is no JSON"));
}

/// All patterns of 16 bits, and many of more.
template <typename Bits>
std::vector<Bits> patterns() {
  std::vector<Bits> all;
  if constexpr (sizeof(Bits) <= 2) {
    for (std::uint32_t i = 0; i <= std::numeric_limits<Bits>::max(); ++i)
      all.push_back(static_cast<Bits>(i));
  } else {
    std::mt19937_64 random(17);
    for (int i = 0; i < 20'000; ++i) all.push_back(static_cast<Bits>(random()));
    for (int bit = 0; bit < std::numeric_limits<Bits>::digits; ++bit) all.push_back(Bits{1} << bit);
    all.push_back(0);
    all.push_back(std::numeric_limits<Bits>::max());
  }
  return all;
}

/// Whether what is written reads back as the same bits, NaN as any NaN.
template <typename Bits, typename IsNan>
void check_round_trip(DataType type, IsNan is_nan) {
  const std::vector<Bits> bits = patterns<Bits>();
  const Tensor tensor = Tensor::of<Bits>(type, {std::ssize(bits)}, bits);
  const Tensor back = nested(nested_text(tensor), type);
  REQUIRE(back.shape() == tensor.shape());
  const auto values = back.values<Bits>();
  std::size_t different = 0;
  for (std::size_t i = 0; i < bits.size(); ++i)
    different += values[i] != bits[i] && !(is_nan(values[i]) && is_nan(bits[i])) ? 1 : 0;
  CHECK(different == 0);
}

TEST_CASE("every value of every type comes back as it went") {
  const auto never = [](auto) { return false; };
  check_round_trip<std::uint8_t>(DataType::int8, never);
  check_round_trip<std::uint8_t>(DataType::uint8, never);
  check_round_trip<std::uint16_t>(DataType::int16, never);
  check_round_trip<std::uint16_t>(DataType::uint16, never);
  check_round_trip<std::uint32_t>(DataType::int32, never);
  check_round_trip<std::uint32_t>(DataType::uint32, never);
  check_round_trip<std::uint64_t>(DataType::int64, never);
  check_round_trip<std::uint64_t>(DataType::uint64, never);
  check_round_trip<std::uint32_t>(DataType::float32,
                                  [](auto b) { return std::isnan(std::bit_cast<float>(b)); });
  check_round_trip<std::uint64_t>(DataType::float64,
                                  [](auto b) { return std::isnan(std::bit_cast<double>(b)); });
  check_round_trip<std::uint16_t>(DataType::float16, [](auto b) { return (b & 0x7FFF) > 0x7C00; });
  check_round_trip<std::uint16_t>(DataType::bfloat16, [](auto b) { return (b & 0x7FFF) > 0x7F80; });
}

TEST_CASE("tensors are written as JSON has them") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.1F, -infinity, std::nanf(""), infinity, 1e20F, -0.0F};
  CHECK(nested_text(Tensor::of_float({2, 3}, values)) ==
        "[[0.1,\"-Infinity\",\"NaN\"],[\"Infinity\",1e+20,-0.0]]");
  CHECK(nested_text(Tensor::of_float({}, std::vector{2.5F})) == "2.5");
  CHECK(nested_text(Tensor::zeros(DataType::int8, {2, 0, 3})) == "[[],[]]");
  CHECK(nested_text(Tensor::of<std::uint8_t>(DataType::boolean, {2},
                                             std::vector<std::uint8_t>{1, 0})) == "[true,false]");
  std::string flat;
  append_flat(flat, Tensor::of_float({2, 1}, std::vector{1.0F, 2.0F}), "output 'y'");
  CHECK(flat == "[1,2]");
  CHECK_THROWS_WITH(nested_text(Tensor::zeros(DataType::int4, {2})),
                    Contains("output 'y'") && Contains("JSON has no int4"));
}

TEST_CASE("values for a shape are flat or nested as it is") {
  const auto values = [](const char* text, const Shape& shape) {
    return tensor_of_values(parse_json(text), DataType::int32, shape, "input 'x'");
  };
  for (const char* text : {"[1, 2, 3, 4]", "[[1, 2], [3, 4]]"}) {
    CHECK(values(text, {2, 2}).shape() == Shape{2, 2});
    CHECK(values(text, {2, 2}).to_int64s() == std::vector<std::int64_t>{1, 2, 3, 4});
  }
  CHECK(values("[]", {1, 0, 64}).shape() == Shape{1, 0, 64});
  CHECK(values("[5]", {}).shape().empty());
  CHECK_THROWS_WITH(values("[1, 2, 3]", {2, 2}), Contains("3 values for a shape of 2x2"));
  CHECK_THROWS_WITH(values("[[1, 2, 3, 4]]", {2, 2}), Contains("lists of 1x4"));
  CHECK_THROWS_WITH(values("[]", {1'000'000'000'000}), Contains("0 values"));
  CHECK_THROWS_WITH(values("5", {}), Contains("give a list"));
  CHECK_THROWS_WITH(values("[1]", {-1}), Contains("impossible"));
}

}  // namespace
}  // namespace autopar::serving
