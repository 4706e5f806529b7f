// Casts to and from types of 8 bits and less, and quantisation, against definitions of the types as
// lists of their values.

#include <cmath>
#include <limits>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

/// A type's values by code, as its specification lists them.
struct Format {
  DataType type;
  int bits;
  int mantissa;
  int bias;
  bool is_ieee;      ///< the largest exponent has infinity and NaN
  bool is_fnuz;      ///< NaN is the code of negative zero
  bool has_one_nan;  ///< NaN is the code of all ones

  double value(int code) const {
    const int sign = 1 << (bits - 1);
    const int magnitude = code & (sign - 1);
    const int exponent = magnitude >> mantissa;
    const int fraction = magnitude & ((1 << mantissa) - 1);
    if (is_fnuz && code == sign) return nan;
    if (has_one_nan && magnitude == sign - 1) return nan;
    if (is_ieee && exponent == (1 << (bits - 1 - mantissa)) - 1)
      return fraction != 0 ? nan : (code & sign ? -infinity : infinity);
    const double size = exponent == 0
                            ? std::ldexp(fraction, 1 - bias - mantissa)
                            : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
    return code & sign ? -size : size;
  }
  double largest() const {
    double most = 0;
    for (int code = 0; code < 1 << bits; ++code)
      if (std::isfinite(value(code))) most = std::max(most, value(code));
    return most;
  }
  /// The nearest value, of two the one with an even code; without the type's largest as a limit.
  double nearest(double x) const {
    const double step =
        std::ldexp(1, std::max(std::ilogb(x == 0 ? 1e-30 : x), 1 - bias) - mantissa);
    return std::nearbyint(x / step) * step;
  }
  double rounded(double x, bool saturate) const {
    if (std::isnan(x)) return bits == 4 ? -0.0 : nan;
    const double near = std::isinf(x) ? x : nearest(x);
    if (std::fabs(near) <= largest()) return near;
    if (saturate || bits == 4) return std::copysign(largest(), x);
    return is_ieee ? std::copysign(infinity, x) : nan;
  }
};

const std::vector<Format> formats = {{DataType::float8e4m3fn, 8, 3, 7, false, false, true},
                                     {DataType::float8e4m3fnuz, 8, 3, 8, false, true, false},
                                     {DataType::float8e5m2, 8, 2, 15, true, false, false},
                                     {DataType::float8e5m2fnuz, 8, 2, 16, false, true, false},
                                     {DataType::float4e2m1, 4, 1, 1, false, false, false}};

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  std::vector<std::uint8_t> result;
  for (const std::byte byte : tensor.bytes()) result.push_back(std::to_integer<std::uint8_t>(byte));
  return result;
}

/// The codes of elements of so many bits.
std::vector<int> codes_of(const Tensor& tensor) {
  const auto bits = static_cast<std::size_t>(graph::bits_of(tensor.type()));
  const auto bytes = bytes_of(tensor);
  std::vector<int> codes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i)
    codes.push_back(bytes[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1));
  return codes;
}

Tensor from_codes(DataType type, const std::vector<int>& codes) {
  const auto bits = static_cast<std::size_t>(graph::bits_of(type));
  std::vector<std::uint8_t> bytes((codes.size() * bits + 7) / 8, 0);
  for (std::size_t i = 0; i < codes.size(); ++i)
    bytes[i * bits / 8] |= static_cast<std::uint8_t>(codes[i] << (i * bits % 8));
  return Tensor::of<std::uint8_t>(type, {static_cast<std::int64_t>(codes.size())}, bytes);
}

std::vector<int> all_codes(int bits) {
  std::vector<int> codes(std::size_t{1} << bits);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int>(i);
  return codes;
}

Tensor cast(const Tensor& x, DataType to, std::map<std::string, Attribute> attributes = {}) {
  attributes["to"] = static_cast<std::int64_t>(to);
  return run_node({"Cast", attributes, {x}, {{to, x.shape()}}}).front();
}

bool same(double x, double y) {
  return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
}

/// Numbers of every size that the format distinguishes, ties, and what is beyond.
std::vector<double> interesting_numbers(const Format& format, Random& random) {
  std::vector<double> numbers = {0.0,   -0.0,  nan,     infinity, -infinity, 1e30, -1e30,
                                 1e-9,  -1e-9, 1e-30,   464,      465,       480,  60000,
                                 61440, 248,   57344.5, 5,        7,         0.25, 0.75};
  for (const int code : all_codes(format.bits)) {
    const double value = format.value(code);
    if (!std::isfinite(value)) continue;
    numbers.push_back(value);
    const double next = format.value(code + 1 < 1 << format.bits ? code + 1 : code);
    if (std::isfinite(next)) numbers.push_back((value + next) / 2);
  }
  for (int i = 0; i < 300; ++i)
    numbers.push_back(std::ldexp(std::uniform_real_distribution<>(-2, 2)(random),
                                 static_cast<int>(random() % 30) - 15));
  for (double& number : numbers) number = static_cast<double>(static_cast<float>(number));
  return numbers;
}

}  // namespace

TEST_CASE("Every code of a small float casts to the number that it stands for") {
  for (const Format& format : formats)
    for (const DataType to : {DataType::float32, DataType::float64, DataType::bfloat16}) {
      const auto values = doubles(cast(from_codes(format.type, all_codes(format.bits)), to));
      for (std::size_t code = 0; code < values.size(); ++code) {
        CAPTURE(name_of(format.type), name_of(to), code);
        REQUIRE(same(values[code], format.value(static_cast<int>(code))));
      }
    }
}

TEST_CASE("Numbers cast to small floats round to nearest even, and saturate or not") {
  Random random(1);
  for (const Format& format : formats)
    for (const bool saturate : {true, false})
      for (const DataType from : {DataType::float32, DataType::float64}) {
        const auto numbers = interesting_numbers(format, random);
        const Tensor x = tensor_of(from, {static_cast<std::int64_t>(numbers.size())}, numbers);
        const auto codes = codes_of(cast(x, format.type, {{"saturate", std::int64_t{saturate}}}));
        REQUIRE(codes.size() == numbers.size());
        for (std::size_t i = 0; i < codes.size(); ++i) {
          double expected = format.rounded(numbers[i], saturate);
          if (format.is_fnuz && expected == 0) expected = 0;
          CAPTURE(name_of(format.type), saturate, numbers[i], expected, codes[i]);
          REQUIRE(same(format.value(codes[i]), expected));
        }
      }
}

TEST_CASE("Half types and integers cast to small floats and back") {
  for (const Format& format : formats) {
    const Tensor halves = tensor_of(DataType::float16, {4}, {1.5, -0.5, 3, 0});
    CHECK(doubles(cast(cast(halves, format.type), DataType::float16)) ==
          std::vector<double>{1.5, -0.5, 3, 0});
    const Tensor integers = tensor_of(DataType::int32, {4}, {1, -2, 4, 0});
    CHECK(doubles(cast(cast(integers, format.type), DataType::int32)) ==
          std::vector<double>{1, -2, 4, 0});
    const Tensor bools = tensor_of(DataType::boolean, {3}, {1, 0, 1});
    CHECK(doubles(cast(cast(bools, format.type), DataType::boolean)) ==
          std::vector<double>{1, 0, 1});
  }
}

TEST_CASE("Casts to powers of two round up, down or to nearest") {
  const std::vector<double> numbers = {1, 1.1, 1.5, 1.9, 3, 0.124, 1e38, 3.3e38, 1e-40, 0};
  const Tensor x = tensor_of(DataType::float32, {10}, numbers);
  const auto rounded = [&](const char* mode, int saturate) {
    return codes_of(
        cast(x, DataType::float8e8m0,
             {{"round_mode", std::string(mode)}, {"saturate", std::int64_t{saturate}}}));
  };
  CHECK(rounded("up", 1) == std::vector<int>{127, 128, 128, 128, 129, 124, 254, 254, 0, 0});
  CHECK(rounded("down", 1) == std::vector<int>{127, 127, 127, 127, 128, 123, 253, 254, 0, 0});
  CHECK(rounded("nearest", 0) ==
        std::vector<int>{127, 127, 128, 128, 129, 124, 253, 255, 255, 255});
  const auto values = doubles(
      cast(from_codes(DataType::float8e8m0, {0, 1, 127, 130, 254, 255}), DataType::float32));
  CHECK(values[0] == std::ldexp(1, -127));
  CHECK(values[1] == std::ldexp(1, -126));
  CHECK(values[2] == 1);
  CHECK(values[3] == 8);
  CHECK(values[4] == std::ldexp(1, 127));
  CHECK(std::isnan(values[5]));
}

TEST_CASE("Integers of 4 and 2 bits keep the low bits, and widen with their sign") {
  for (const auto& [type, bits, is_signed] :
       std::vector<std::tuple<DataType, int, bool>>{{DataType::int4, 4, true},
                                                    {DataType::uint4, 4, false},
                                                    {DataType::int2, 2, true},
                                                    {DataType::uint2, 2, false}}) {
    std::vector<double> numbers;
    for (int i = -9; i < 18; ++i) numbers.push_back(i);  // 27: the last byte is not full
    for (const DataType from : {DataType::float32, DataType::int8, DataType::int64}) {
      const Tensor packed = cast(tensor_of(from, {27}, numbers), type);
      for (const DataType to : {DataType::float32, DataType::int8, DataType::float16}) {
        const auto values = doubles(cast(packed, to));
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const int low = static_cast<int>(numbers[i]) & ((1 << bits) - 1);
          const int expected = is_signed && low >= 1 << (bits - 1) ? low - (1 << bits) : low;
          CAPTURE(name_of(type), name_of(from), name_of(to), i);
          REQUIRE(values[i] == expected);
        }
      }
    }
  }
}

TEST_CASE("A cast of nothing, and one with a rounding that is not known") {
  CHECK(cast(Tensor::zeros(DataType::float32, {0}), DataType::int4).elements() == 0);
  CHECK_THROWS_WITH(cast(Tensor::zeros(DataType::float32, {1}), DataType::float8e8m0,
                         {{"round_mode", std::string("sideways")}}),
                    Catch::Contains("the_node") && Catch::Contains("sideways"));
}

// Quantisation

namespace {

struct Granularity {
  const char* name;
  Shape scale;
  std::int64_t axis;
  std::int64_t block;  ///< 0: none
};

const Shape data_shape{3, 4, 6};
const std::vector<Granularity> granularities = {{"per tensor", {}, 1, 0},
                                                {"per tensor, a vector", {1}, 1, 0},
                                                {"per axis 0", {3}, 0, 0},
                                                {"per axis 1", {4}, 1, 0},
                                                {"per last axis", {6}, -1, 0},
                                                {"blocked axis 1", {3, 2, 6}, 1, 2},
                                                {"blocked, uneven", {3, 2, 6}, 1, 3},
                                                {"blocked last", {3, 4, 2}, 2, 3},
                                                {"blocked last, uneven", {3, 4, 2}, 2, 4},
                                                {"blocked first", {2, 4, 6}, 0, 2}};

/// Where the scale of the data's element at an index lies.
std::size_t scale_place(const Granularity& g, const Shape& index) {
  if (graph::num_elements(g.scale) == 1) return 0;
  const auto axis = static_cast<std::size_t>(g.axis < 0 ? g.axis + 3 : g.axis);
  if (g.block == 0) return static_cast<std::size_t>(index[axis]);
  std::int64_t place = 0;
  for (std::size_t d = 0; d < 3; ++d)
    place = place * g.scale[d] + (d == axis ? index[d] / g.block : index[d]);
  return static_cast<std::size_t>(place);
}

std::map<std::string, Attribute> attributes_of(const Granularity& g) {
  std::map<std::string, Attribute> attributes{{"axis", g.axis}};
  if (g.block > 0) attributes["block_size"] = g.block;
  return attributes;
}

Tensor with_shape(const Tensor& tensor, const Shape& shape) { return tensor.reshaped(shape); }

struct IntegerType {
  DataType type;
  double lowest;
  double highest;
};
const std::vector<IntegerType> integer_quantities = {
    {DataType::int8, -128, 127},  {DataType::uint8, 0, 255}, {DataType::int16, -32768, 32767},
    {DataType::uint16, 0, 65535}, {DataType::int4, -8, 7},   {DataType::uint4, 0, 15},
    {DataType::int2, -2, 1},      {DataType::uint2, 0, 3}};

}  // namespace

TEST_CASE("QuantizeLinear and DequantizeLinear of every integer type and granularity") {
  Random random(3);
  const auto count = static_cast<std::size_t>(graph::num_elements(data_shape));
  for (const Granularity& g : granularities)
    for (const IntegerType& to : integer_quantities)
      for (const bool has_zero : {true, false}) {
        const auto scales = static_cast<std::size_t>(graph::num_elements(g.scale));
        std::vector<double> scale(scales);
        std::vector<double> zero(scales, 0);
        for (double& each : scale) each = std::ldexp(1 + static_cast<double>(random() % 4), -3);
        if (has_zero)
          for (double& each : zero)
            each = std::floor(std::uniform_real_distribution<>(to.lowest, to.highest + 1)(random));
        std::vector<double> x(count);
        for (double& each : x)
          each = static_cast<float>(std::uniform_real_distribution<>(-40, 40)(random));
        std::vector<double> quantized;
        std::vector<double> back;
        for_each_index(data_shape, [&](const Shape& index) {
          const std::size_t place = scale_place(g, index);
          const double q =
              std::clamp(std::nearbyint(double(float(x[quantized.size()]) / float(scale[place]))) +
                             zero[place],
                         to.lowest, to.highest);
          quantized.push_back(q);
          back.push_back((q - zero[place]) * scale[place]);
        });
        const Tensor scale_tensor = tensor_of(DataType::float32, g.scale, scale);
        std::optional<Tensor> zero_tensor;
        if (has_zero)
          zero_tensor = with_shape(
              cast(tensor_of(DataType::int32, {static_cast<std::int64_t>(scales)}, zero), to.type),
              g.scale);
        std::vector<std::optional<Tensor>> inputs{tensor_of(DataType::float32, data_shape, x),
                                                  scale_tensor};
        if (has_zero) inputs.push_back(zero_tensor);
        auto attributes = attributes_of(g);
        if (!has_zero) attributes["output_dtype"] = static_cast<std::int64_t>(to.type);
        const Tensor y =
            run_node({"QuantizeLinear", attributes, inputs, {{to.type, data_shape}}}).front();
        CAPTURE(g.name, name_of(to.type), has_zero);
        CHECK(doubles(cast(y, DataType::int32)) == quantized);
        inputs[0] = y;
        for (const DataType out : {DataType::float32, DataType::float16}) {
          const Tensor z =
              run_node({"DequantizeLinear", attributes_of(g), inputs, {{out, data_shape}}}).front();
          if (out == DataType::float32) CHECK(doubles(z) == back);
          if (out == DataType::float16) check_close(z, back);
        }
      }
}

TEST_CASE("QuantizeLinear to floats, by scales of every type") {
  Random random(4);
  for (const Format& format : formats) {
    const auto numbers = interesting_numbers(format, random);
    std::vector<double> finite;
    for (const double number : numbers)
      if (std::isfinite(number) && std::fabs(number) < 1e10) finite.push_back(number);
    const Shape shape{static_cast<std::int64_t>(finite.size())};
    for (const DataType scale : {DataType::float32, DataType::float16, DataType::bfloat16}) {
      const Tensor y =
          run_node({"QuantizeLinear",
                    {{"output_dtype", static_cast<std::int64_t>(format.type)},
                     {"precision", std::int64_t{1}}},
                    {tensor_of(DataType::float32, shape, finite), tensor_of(scale, {}, {2})},
                    {{format.type, shape}}})
              .front();
      const auto codes = codes_of(y);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        double expected = format.rounded(finite[i] / 2, true);
        CAPTURE(name_of(format.type), finite[i]);
        REQUIRE(format.value(codes[i]) == expected);
      }
      if (scale == DataType::float16) continue;  // twice the largest is beyond it
      const auto back = doubles(
          run_node({"DequantizeLinear", {}, {y, tensor_of(scale, {}, {2})}, {{scale, shape}}})
              .front());
      for (std::size_t i = 0; i < codes.size(); ++i)
        REQUIRE(back[i] == Approx(2 * format.value(codes[i])).epsilon(1e-6));
    }
  }
}

TEST_CASE("QuantizeLinear divides in the precision of the scale, or the one asked for") {
  // 0.3 / 0.1 in float16 and in float32, times 1000 to make the difference show.
  const Tensor x = tensor_of(DataType::float16, {1}, {1000.5});
  const Tensor scale = tensor_of(DataType::float16, {}, {0.03});
  const float exact = to_float(to_float16(1000.5F)) / to_float(to_float16(0.03F));
  const auto run = [&](std::map<std::string, Attribute> attributes) {
    attributes["output_dtype"] = static_cast<std::int64_t>(DataType::uint16);
    return doubles(
        run_node({"QuantizeLinear", attributes, {x, scale}, {{DataType::uint16, {1}}}}).front())[0];
  };
  CHECK(run({}) == std::nearbyint(to_float(to_float16(exact))));
  CHECK(run({{"precision", std::int64_t{1}}}) == std::nearbyint(exact));
  CHECK(run({}) != run({{"precision", std::int64_t{1}}}));
}

TEST_CASE("DequantizeLinear of 32-bit integers, by powers of two") {
  const Tensor x = tensor_of(DataType::int32, {3}, {-5, 100000, 7});
  const Tensor scale = from_codes(DataType::float8e8m0, {126});
  CHECK(doubles(run_node({"DequantizeLinear",
                          {{"output_dtype", std::int64_t{1}}},
                          {x, with_shape(scale, {})},
                          {{DataType::float32, {3}}}})
                    .front()) == std::vector<double>{-2.5, 50000, 3.5});
}

TEST_CASE("Scales that do not fit the data are an error that names the node") {
  const Tensor x = Tensor::zeros(DataType::float32, {3, 4});
  const auto run = [&](const Shape& scale, std::map<std::string, Attribute> attributes) {
    run_node({"QuantizeLinear",
              attributes,
              {x, Tensor::zeros(DataType::float32, scale)},
              {{DataType::uint8, {3, 4}}}});
  };
  CHECK_THROWS_WITH(run({3}, {}), Catch::Contains("the_node") && Catch::Contains("scale"));
  CHECK_THROWS_WITH(run({3, 3}, {{"block_size", std::int64_t{2}}}), Catch::Contains("the_node"));
  CHECK_THROWS_WITH(run({4}, {{"axis", std::int64_t{2}}}), Catch::Contains("the_node"));
}
