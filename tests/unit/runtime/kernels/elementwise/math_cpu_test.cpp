#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "runtime/kernels/elementwise/activation_functions.h"
#include "runtime/kernels/elementwise/blocks_cpu.h"

namespace autopar::runtime {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double least_normal = std::numeric_limits<float>::min();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<cpu::SimdLevel> levels() {
  std::vector<cpu::SimdLevel> result;
  for (int level = 0; level <= static_cast<int>(cpu::simd_level()); ++level)
    result.push_back(static_cast<cpu::SimdLevel>(level));
  return result;
}

template <typename Op>
std::vector<float> apply(cpu::SimdLevel level, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  cpu::BlockArguments arguments;
  arguments.inputs[0] = reinterpret_cast<const std::byte*>(x.data());
  arguments.output = reinterpret_cast<std::byte*>(y.data());
  arguments.elements = static_cast<std::int64_t>(x.size());
  cpu::block_function<Op, float>(level)(arguments);
  return y;
}

/// Distance from the true value in units of the last place of a float there.
double ulps(float value, double truth) {
  const float rounded = static_cast<float>(truth);
  if (std::isinf(rounded)) return value == rounded ? 0 : 1e9;
  const double ulp = std::max(
      static_cast<double>(std::nextafter(std::fabs(rounded), infinity)) - std::fabs(rounded),
      static_cast<double>(std::numeric_limits<float>::denorm_min()));
  return std::fabs(value - truth) / ulp;
}

/// Every 1000th float, of both signs.
std::vector<float> sweep() {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 1000) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-std::bit_cast<float>(bits));
  }
  return x;
}

template <typename Op>
double worst(cpu::SimdLevel level, double (*truth)(double)) {
  const std::vector<float> x = sweep();
  const std::vector<float> y = apply<Op>(level, x);
  double result = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = truth(x[i]);
    if (std::isnan(expected) && std::isnan(y[i])) continue;
    const double error = ulps(y[i], expected);
    if (!(error <= result)) result = error;
  }
  return result;
}

TEST_CASE("functions are within a few units in the last place at every SIMD level") {
  for (const cpu::SimdLevel level : levels()) {
    CAPTURE(static_cast<int>(level));
    CHECK(worst<functions::Exp>(level, [](double x) { return std::exp(x); }) < 2);
    CHECK(worst<functions::Tanh>(level, [](double x) { return std::tanh(x); }) < 3);
    CHECK(worst<functions::Erf>(level, [](double x) { return std::erf(x); }) < 3);
    CHECK(worst<functions::Log>(level, [](double x) { return std::log(x); }) < 2);
    CHECK(worst<functions::Atan>(level, [](double x) { return std::atan(x); }) < 3);
    CHECK(worst<functions::Asin>(level, [](double x) { return std::asin(x); }) < 3);
    CHECK(worst<functions::Acos>(level, [](double x) { return std::acos(x); }) < 3);
    CHECK(worst<functions::Sigmoid>(level, [](double x) {
            const double y = 1 / (1 + std::exp(-x));
            return y < least_normal ? 0 : y;
          }) < 3);
  }
}

/// As the library's kernels call the functions: this file's own loops are compiled otherwise.
std::vector<float> apply_block(cpu::BlockFunction block, std::span<const float> x) {
  std::vector<float> y(x.size());
  cpu::BlockArguments arguments;
  arguments.inputs.fill(std::as_bytes(x).data());
  arguments.output = reinterpret_cast<std::byte*>(y.data());
  arguments.elements = static_cast<std::int64_t>(x.size());
  block(arguments);
  return y;
}

TEST_CASE("an element has the same bits wherever it lies in a block") {
  std::vector<float> x(1 << 16);
  std::mt19937 random(3);
  for (float& each : x) each = std::normal_distribution<float>(0, 3)(random);
  int functions = 0;
  for (const cpu::BlockFinder find : cpu::mathematical_blocks()) {
    const cpu::BlockFunction block = find(DataType::float32);
    if (block == nullptr) continue;
    CAPTURE(functions++);
    const std::vector<float> whole = apply_block(block, x);
    std::size_t different = 0;
    for (std::size_t first = 0, count = 1; first + count <= x.size();
         first += count, count = count % 47 + 1) {
      const std::vector<float> part = apply_block(block, std::span(x).subspan(first, count));
      for (std::size_t i = 0; i < count; ++i)
        different +=
            std::bit_cast<std::uint32_t>(part[i]) != std::bit_cast<std::uint32_t>(whole[first + i]);
    }
    CHECK(different == 0);
  }
  CHECK(functions > 10);
}

TEST_CASE("functions at the ends") {
  for (const cpu::SimdLevel level : levels()) {
    const std::vector<float> x = {infinity, -infinity, 0.0F, -0.0F, nan};
    const auto e = apply<functions::Exp>(level, x);
    CHECK(e[0] == infinity);
    CHECK(e[1] == 0);
    CHECK(e[2] == 1);
    CHECK(e[3] == 1);
    CHECK(std::isnan(e[4]));
    const auto l = apply<functions::Log>(level, x);
    CHECK(l[0] == infinity);
    CHECK(std::isnan(l[1]));
    CHECK(l[2] == -infinity);
    CHECK(l[3] == -infinity);
    CHECK(std::isnan(l[4]));
    for (const auto& y : {apply<functions::Tanh>(level, x), apply<functions::Erf>(level, x)}) {
      CHECK(y[0] == 1);
      CHECK(y[1] == -1);
      CHECK(y[2] == 0);
      CHECK((y[3] == 0 && std::signbit(y[3])));
      CHECK(std::isnan(y[4]));
    }
    const auto share = apply<functions::Sigmoid>(level, x);
    CHECK(share[0] == 1);
    CHECK(share[1] == 0);
    CHECK(share[2] == 0.5);
    CHECK(share[3] == 0.5);
    CHECK(std::isnan(share[4]));
    const auto angle = apply<functions::Atan>(level, x);
    CHECK(ulps(angle[0], std::acos(0.0)) < 1);
    CHECK(ulps(angle[1], -std::acos(0.0)) < 1);
    CHECK((angle[3] == 0 && std::signbit(angle[3])));
    CHECK(std::isnan(angle[4]));
    for (const auto& y : {apply<functions::Asin>(level, x), apply<functions::Acos>(level, x)})
      CHECK((std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[4])));
  }
}

/// The value of a half by its definition: sign, exponent, fraction.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? nan : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

TEST_CASE("every half widens to its value and narrows back to itself") {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide16 = to_float(Float16{half});
    const float wide_b = to_float(BFloat16{half});
    const double truth16 = value_of(half, 5, 10);
    const double truth_b = value_of(half, 8, 7);
    if (std::isnan(truth16) ? !std::isnan(wide16)
                            : wide16 != truth16 || to_float16(wide16).bits != half)
      FAIL("float16 " << bits);
    if (std::isnan(truth_b) ? !std::isnan(wide_b)
                            : wide_b != truth_b || to_bfloat16(wide_b).bits != half)
      FAIL("bfloat16 " << bits);
  }
}

TEST_CASE("narrowing rounds to the nearest half, ties to even") {
  for (int bits = 0; bits < 0x7BFF; ++bits) {  // float16 neighbours, up to the largest finite
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (to_float(Float16{low}) + to_float(Float16{high})) / 2;
    const std::uint16_t even = bits % 2 == 0 ? low : high;
    const bool good = to_float16(middle).bits == even &&
                      to_float16(std::nextafter(middle, 0.0F)).bits == low &&
                      to_float16(std::nextafter(middle, infinity)).bits == high;
    if (!good) FAIL("between float16 " << low << " and " << high);
  }
  CHECK(to_float16(65519.0F).bits == 0x7BFF);
  CHECK(to_float16(65520.0F).bits == 0x7C00);
  CHECK(to_float16(-1e30F).bits == 0xFC00);
  CHECK((to_float16(nan).bits & 0x7FFF) > 0x7C00);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK((to_bfloat16(nan).bits & 0x7FFF) > 0x7F80);
  CHECK(to_bfloat16(1.00390625F).bits == 0x3F80);  // a tie, to even
  CHECK(to_bfloat16(1.01171875F).bits == 0x3F82);  // a tie, to even
  CHECK(to_bfloat16(1.00390637F).bits == 0x3F81);
}

}  // namespace
}  // namespace autopar::runtime
