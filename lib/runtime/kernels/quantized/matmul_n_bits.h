#pragma once

#include <cstdint>

#include "runtime/kernel.h"
#include "runtime/kernels/common/host_device.h"

namespace autopar::runtime {

/// What a MatMulNBits (com.microsoft) says: out[m, n] = sum over k of a[m, k] w[n, k] + bias[n],
/// where w[n, k] = scales[n, block of k] * (q[n, k] - zero[n, block of k]). A row of q is bytes
/// that hold 8 / bits numbers each, lowest bits first; blocks begin at whole bytes.
struct PackedProduct {
  enum class Zeros { usual, packed, numbers };

  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< n
  std::int64_t depth = 0;    ///< k
  std::int64_t block = 0;    ///< of k
  std::int64_t blocks = 0;
  int bits = 4;
  Zeros zeros = Zeros::usual;  ///< 2^(bits - 1), bytes as q, or of a's type
  bool has_bias = false;

  constexpr std::int64_t block_bytes() const { return block * bits / 8; }
  constexpr std::int64_t row_bytes() const { return blocks * block_bytes(); }
  /// Bytes of a column's packed zero points.
  constexpr std::int64_t zero_bytes() const { return (blocks * bits + 7) / 8; }
};

/// The i-th number of a row of bytes.
AUTOPAR_ELEMENTWISE int packed_number(const std::uint8_t* bytes, std::int64_t i, int bits) {
  const std::int64_t bit = i * bits;
  return (bytes[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
}

/// Throws Error naming the node for shapes and forms that make no sense or are not served.
PackedProduct packed_product(const KernelRequest& request);

}  // namespace autopar::runtime
