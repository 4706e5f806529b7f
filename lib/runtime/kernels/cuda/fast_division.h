#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

namespace autopar::runtime::cuda {

/// Divides numbers below 2^31 by a number that is known at launch, with a multiplication and a
/// shift: what takes a flat index apart into one a dimension.
class FastDivisor {
 public:
  /// Largest dividend plus one, and largest divisor.
  static constexpr std::int64_t limit = std::int64_t{1} << 31;

  /// Division by 1.
  FastDivisor() = default;
  /// In [1, limit].
  explicit FastDivisor(std::int64_t divisor)
      : divisor_(static_cast<std::uint32_t>(divisor)),
        shift_(std::bit_width(divisor_ - 1)),
        // The 33 bits of ceil(2^(32 + shift) / divisor) but the highest.
        multiplier_(static_cast<std::uint32_t>(
            ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - divisor_)) / divisor_ +
            1)) {}

  __host__ __device__ std::uint32_t divisor() const { return divisor_; }

  __host__ __device__ std::uint32_t quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier_) >> 32);
    return (high + n) >> shift_;
  }

  /// Divides `n`, and returns the remainder.
  __host__ __device__ std::uint32_t divide(std::uint32_t& n) const {
    const std::uint32_t whole = n;
    n = quotient(whole);
    return whole - n * divisor_;
  }

 private:
  std::uint32_t divisor_ = 1;
  int shift_ = 0;
  std::uint32_t multiplier_ = 1;
};

}  // namespace autopar::runtime::cuda
