#include "runtime/kernels/cuda/fast_division.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace autopar::runtime::cuda {
namespace {

constexpr std::uint32_t largest = FastDivisor::limit - 1;

void check(std::uint32_t n, std::uint32_t divisor) {
  const FastDivisor fast(divisor);
  std::uint32_t quotient = n;
  const std::uint32_t remainder = fast.divide(quotient);
  if (quotient != n / divisor || remainder != n % divisor || fast.quotient(n) != quotient)
    FAIL(n << " / " << divisor << " is " << quotient << " and " << remainder << " is left");
}

TEST_CASE("Fast division is exact around every multiple where rounding could show") {
  std::mt19937 random(1);
  std::vector<std::uint32_t> divisors = {largest, largest + 1U, largest - 1};
  for (std::uint32_t d = 1; d < 300; ++d) divisors.push_back(d);
  for (int bit = 2; bit < 31; ++bit)
    for (const int off : {-1, 0, 1}) divisors.push_back((1U << bit) + static_cast<unsigned>(off));
  for (int i = 0; i < 300; ++i) divisors.push_back(1 + random() % largest);
  for (const std::uint32_t divisor : divisors) {
    const std::uint32_t multiples = largest / divisor;
    for (int i = 0; i < 200; ++i) {
      const std::uint32_t multiple = i == 0 ? multiples : random() % (multiples + 1U);
      const std::uint32_t n = multiple * divisor;
      check(n, divisor);
      if (n > 0) check(n - 1, divisor);
      if (n < largest) check(n + 1, divisor);
    }
    check(largest, divisor);
    check(0, divisor);
  }
}

TEST_CASE("Division by one, and by what divisors are without a number") {
  std::uint32_t n = largest;
  CHECK(FastDivisor().divide(n) == 0);
  CHECK(n == largest);
}

}  // namespace
}  // namespace autopar::runtime::cuda
