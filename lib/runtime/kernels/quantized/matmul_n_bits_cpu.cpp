// MatMulNBits: weights stay packed in memory. A few rows read them as they are; more rows take them
// tile by tile, unpacked into the cache, through oneDNN's product.

#include "runtime/kernels/quantized/matmul_n_bits.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lanes.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cpu {
namespace {

using Zeros = PackedProduct::Zeros;

/// More rows than this are worth unpacking for.
constexpr std::int64_t most_direct_rows = 4;
constexpr std::int64_t tile_columns = 128;
constexpr std::int64_t tile_depth = 512;

/// A column's weights and one row's numbers as they are arranged, block by block.
struct Blocks {
  const std::uint8_t* bytes = nullptr;
  const float* a = nullptr;
  const float* scales = nullptr;
  std::int64_t count = 0;
  std::int64_t bytes_each = 0;
};

/// Sum over blocks of scale times q a, of whole groups of lanes, which are added up once, at the
/// end. Each group, and each number of a byte, has a sum of its own within a block: an addition
/// waits for the one before it.
template <int lanes, int bits, int groups>
[[gnu::always_inline]] inline float dot_in_lanes(const Blocks& blocks) {
  using Floats = typename Vector<lanes>::Floats;
  constexpr int parts = 8 / bits;
  constexpr int mask = (1 << bits) - 1;
  Floats sums{};
  const std::uint8_t* bytes = blocks.bytes;
  const float* a = blocks.a;
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    Floats own[groups * parts] = {};
    for (std::int64_t i = 0; i < blocks.bytes_each; i += groups * lanes)
      for (int group = 0; group < groups; ++group) {
        const std::int64_t first = i + group * lanes;
        typename Vector<lanes>::Integers packed;
        for (int lane = 0; lane < lanes; ++lane) packed[lane] = bytes[first + lane];
        for (int part = 0; part < parts; ++part) {
          Floats numbers;
          std::memcpy(&numbers, a + part * blocks.bytes_each + first, sizeof numbers);
          own[group * parts + part] +=
              numbers * __builtin_convertvector((packed >> (part * bits)) & mask, Floats);
        }
      }
    for (int i = 1; i < groups * parts; ++i) own[0] += own[i];
    sums += blocks.scales[block] * own[0];
    bytes += blocks.bytes_each;
    a += parts * blocks.bytes_each;
  }
  return sum_of_lanes<lanes>(sums);
}

/// The same of blocks of any size.
template <int bits>
[[gnu::always_inline]] inline float dot_by_element(const Blocks& blocks) {
  constexpr int parts = 8 / bits;
  float sum = 0;
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    const std::uint8_t* const bytes = blocks.bytes + block * blocks.bytes_each;
    const float* const a = blocks.a + block * parts * blocks.bytes_each;
    float partial = 0;
    for (int part = 0; part < parts; ++part)
      for (std::int64_t i = 0; i < blocks.bytes_each; ++i)
        partial += a[part * blocks.bytes_each + i] *
                   static_cast<float>((bytes[i] >> (part * bits)) & ((1 << bits) - 1));
    sum += blocks.scales[block] * partial;
  }
  return sum;
}

/// Where a column's zero points are: packed, numbers, or neither, but the usual ones.
struct ZeroPoints {
  const std::uint8_t* packed = nullptr;
  const float* numbers = nullptr;

  template <int bits>
  [[gnu::always_inline]] inline float at(std::int64_t block) const {
    if (packed != nullptr) return static_cast<float>(packed_number(packed, block, bits));
    return numbers != nullptr ? numbers[block] : static_cast<float>(1 << (bits - 1));
  }
};

/// The zero points of as many blocks from `first` on as there are lanes, which a word of 32 bits
/// has room for. Where they are packed, `first` is a multiple of the lanes.
template <int lanes, int bits>
[[gnu::always_inline]] inline void load_zeros(typename Vector<lanes>::Floats& to,
                                              const ZeroPoints& zeros, std::int64_t first) {
  using Integers = typename Vector<lanes>::Integers;
  if (zeros.packed != nullptr) {
    std::int32_t word = 0;
    std::memcpy(&word, zeros.packed + first * bits / 8, lanes * bits / 8);
    Integers places;
    for (int lane = 0; lane < lanes; ++lane) places[lane] = lane * bits;
    const Integers numbers = ((Integers{} + word) >> places) & ((1 << bits) - 1);
    to = __builtin_convertvector(numbers, typename Vector<lanes>::Floats);
  } else if (zeros.numbers != nullptr) {
    load(to, zeros.numbers + first);
  } else {
    to = typename Vector<lanes>::Floats{} + static_cast<float>(1 << (bits - 1));
  }
}

/// Sum over blocks of scale times zero point times the sum of a, which is in `sums`.
template <int most_lanes, int bits>
[[gnu::always_inline]] inline float zero_part(const Blocks& blocks, const ZeroPoints& zeros,
                                              const float* sums) {
  constexpr int few = 8;  // more lanes would leave more blocks to the loop behind: 24 are common
  constexpr int lanes = std::min({most_lanes, 32 / bits, few});
  typename Vector<lanes>::Floats in_lanes{}, scales, sums_of_a, zero_points;
  std::int64_t block = 0;
  for (; block + lanes <= blocks.count; block += lanes) {
    load(scales, blocks.scales + block);
    load(sums_of_a, sums + block);
    load_zeros<lanes, bits>(zero_points, zeros, block);
    in_lanes += scales * sums_of_a * zero_points;
  }
  float sum = sum_of_lanes<lanes>(in_lanes);
  for (; block < blocks.count; ++block)
    sum += blocks.scales[block] * sums[block] * zeros.at<bits>(block);
  return sum;
}

/// What one run reads and writes, in floats.
struct Operands {
  const float* a = nullptr;
  const std::uint8_t* b = nullptr;
  const float* scales = nullptr;
  const std::uint8_t* packed_zeros = nullptr;
  const float* zeros = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
};

ZeroPoints zeros_of(const PackedProduct& of, const Operands& operands, std::int64_t column) {
  ZeroPoints zeros;
  if (of.zeros == Zeros::packed) zeros.packed = operands.packed_zeros + column * of.zero_bytes();
  if (of.zeros == Zeros::numbers) zeros.numbers = operands.zeros + column * of.blocks;
  return zeros;
}

/// Rows whose numbers are arranged for dot products with packed columns.
struct ArrangedRows {
  const PackedProduct& of;
  const Operands& operands;
  const float* arranged;

  /// A row's numbers in whole blocks, and each block's sum.
  static std::int64_t floats(const PackedProduct& of) { return of.blocks * of.block + of.blocks; }
};

/// Puts the numbers of a block that share a place in their bytes side by side, zeros behind the
/// last.
template <int bits>
void arrange_in_parts(const PackedProduct& of, const float* row, float* to) {
  constexpr std::int64_t parts = 8 / bits;
  const std::int64_t bytes = of.block_bytes();
  float* const sums = to + of.blocks * of.block;
  for (std::int64_t block = 0; block < of.blocks; ++block, to += of.block) {
    const std::int64_t first = block * of.block;
    const std::int64_t given = std::clamp<std::int64_t>(of.depth - first, 0, of.block);
    if (given < of.block) std::fill_n(to, of.block, 0.0F);
    float sum = 0;
    for (std::int64_t i = 0; i < given; ++i) {
      to[i % parts * bytes + i / parts] = row[first + i];
      sum += row[first + i];
    }
    sums[block] = sum;
  }
}

void arrange(const PackedProduct& of, const float* row, float* to) {
  if (of.bits == 2) return arrange_in_parts<2>(of, row, to);
  if (of.bits == 4) return arrange_in_parts<4>(of, row, to);
  arrange_in_parts<8>(of, row, to);
}

/// The products of all rows with the columns from `first` up to `last`.
template <int lanes, int bits>
struct MultiplyColumns {
  /// The same as dot_in_lanes() where a block has exactly `groups` vectors of bytes: the compiler
  /// knows how often the loop over a block runs, and unrolls it.
  template <int groups>
  [[gnu::always_inline]] static inline float dot_of_groups(Blocks blocks) {
    blocks.bytes_each = groups * lanes;
    return dot_in_lanes<lanes, bits, groups>(blocks);
  }

  [[gnu::always_inline]] static inline float dot(const Blocks& blocks) {
    if (blocks.bytes_each == lanes) return dot_of_groups<1>(blocks);
    if (blocks.bytes_each == 2 * lanes) return dot_of_groups<2>(blocks);
    if (blocks.bytes_each % (2 * lanes) == 0) return dot_in_lanes<lanes, bits, 2>(blocks);
    if (blocks.bytes_each % lanes == 0) return dot_in_lanes<lanes, bits, 1>(blocks);
    return dot_by_element<bits>(blocks);
  }

  [[gnu::always_inline]] static inline void run(const ArrangedRows& rows, std::int64_t first,
                                                std::int64_t last) {
    const PackedProduct& of = rows.of;
    const Operands& operands = rows.operands;
    for (std::int64_t column = first; column < last; ++column) {
      Blocks blocks{operands.b + column * of.row_bytes(), rows.arranged,
                    operands.scales + column * of.blocks, of.blocks, of.block_bytes()};
      const ZeroPoints zeros = zeros_of(of, operands, column);
      const float bias = operands.bias != nullptr ? operands.bias[column] : 0.0F;
      for (std::int64_t row = 0; row < of.rows; ++row, blocks.a += ArrangedRows::floats(of))
        operands.out[row * of.columns + column] =
            dot(blocks) + bias -
            zero_part<lanes, bits>(blocks, zeros, blocks.a + of.blocks * of.block);
    }
  }
};

/// Stores the first of both, then the second of both, and so on: a byte's low half comes before its
/// high half.
template <int lanes>
[[gnu::always_inline]] inline void store_by_turns(const typename Vector<lanes>::Floats& a,
                                                  const typename Vector<lanes>::Floats& b,
                                                  float* out) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    const typename Vector<lanes>::Floats numbers[2] = {
        __builtin_shufflevector(a, b, (i / 2 + i % 2 * lanes)...),
        __builtin_shufflevector(a, b, (lanes / 2 + i / 2 + i % 2 * lanes)...)};
    std::memcpy(out, numbers, sizeof numbers);
  }
  (std::make_integer_sequence<int, lanes>());
}

/// As many numbers of 4 bits as are in whole lanes of bytes; returns these bytes.
template <int lanes>
[[gnu::always_inline]] inline std::int64_t unpack_lanes(const std::uint8_t* bytes, std::int64_t n,
                                                        float scale, float zero, float* out) {
  using Floats = typename Vector<lanes>::Floats;
  std::int64_t i = 0;
  for (; 2 * (i + lanes) <= n; i += lanes) {
    typename Vector<lanes>::Integers packed;
    for (int lane = 0; lane < lanes; ++lane) packed[lane] = bytes[i + lane];
    const Floats low = scale * (__builtin_convertvector(packed & 15, Floats) - zero);
    const Floats high = scale * (__builtin_convertvector(packed >> 4, Floats) - zero);
    store_by_turns<lanes>(low, high, out + 2 * i);
  }
  return i;
}

/// out[i] = scale (q[i] - zero)
template <int lanes, int bits>
[[gnu::always_inline]] inline void unpack(const std::uint8_t* bytes, std::int64_t n, float scale,
                                          float zero, float* out) {
  constexpr std::int64_t parts = 8 / bits;
  std::int64_t done = 0;
  if constexpr (bits == 4) done = unpack_lanes<lanes>(bytes, n, scale, zero, out);
  for (std::int64_t i = done; i < n / parts; ++i)
    for (std::int64_t part = 0; part < parts; ++part)
      out[i * parts + part] =
          scale * (static_cast<float>((bytes[i] >> (part * bits)) & ((1 << bits) - 1)) - zero);
  for (std::int64_t i = n / parts * parts; i < n; ++i)
    out[i] = scale * (static_cast<float>(packed_number(bytes, i, bits)) - zero);
}

/// Blocks of a column that follow one another; pointers are the column's.
struct BlockRange {
  const std::uint8_t* bytes;
  const float* scales;
  ZeroPoints zeros;
  std::int64_t first;  ///< block
  std::int64_t block;  ///< numbers of each, and bytes
  std::int64_t block_bytes;
  std::int64_t numbers;  ///< of all, so that the last block may have fewer
};

template <int lanes, int bits>
struct Unpack {
  [[gnu::always_inline]] static inline void run(const BlockRange& of, float* out) {
    for (std::int64_t k = 0; k < of.numbers; k += of.block) {
      const std::int64_t block = of.first + k / of.block;
      unpack<lanes, bits>(of.bytes + block * of.block_bytes, std::min(of.block, of.numbers - k),
                          of.scales[block], of.zeros.at<bits>(block), out + k);
    }
  }
};

// Kernels' functions by the number of bits, for this machine.

template <int lanes>
using MultiplyColumns2 = MultiplyColumns<lanes, 2>;
template <int lanes>
using MultiplyColumns4 = MultiplyColumns<lanes, 4>;
template <int lanes>
using MultiplyColumns8 = MultiplyColumns<lanes, 8>;

SimdFunction<const ArrangedRows&, std::int64_t, std::int64_t> multiply_columns_of(
    std::int64_t bits) {
  return bits == 2   ? function_in_lanes<MultiplyColumns2, const ArrangedRows&, std::int64_t,
                                       std::int64_t>()
         : bits == 4 ? function_in_lanes<MultiplyColumns4, const ArrangedRows&, std::int64_t,
                                         std::int64_t>()
                     : function_in_lanes<MultiplyColumns8, const ArrangedRows&, std::int64_t,
                                         std::int64_t>();
}

template <int lanes>
using Unpack2 = Unpack<lanes, 2>;
template <int lanes>
using Unpack4 = Unpack<lanes, 4>;
template <int lanes>
using Unpack8 = Unpack<lanes, 8>;

SimdFunction<const BlockRange&, float*> unpack_of(std::int64_t bits) {
  return bits == 2   ? function_in_lanes<Unpack2, const BlockRange&, float*>()
         : bits == 4 ? function_in_lanes<Unpack4, const BlockRange&, float*>()
                     : function_in_lanes<Unpack8, const BlockRange&, float*>();
}

class MatMulNBits final : public Kernel {
 public:
  explicit MatMulNBits(const KernelRequest& request)
      : of_(packed_product(request)),
        threads_(request.device.threads()),
        float_bytes_(float_bytes(request)),
        is_direct_(of_.rows <= most_direct_rows) {}

  std::int64_t scratch_bytes() const override {
    return float_bytes_ + (is_direct_ ? arranged_bytes() : threads_ * tile_bytes());
  }

  void run(const KernelIo& io) override {
    if (of_.rows == 0) return;
    FloatCopies copies(io.scratch);
    Operands operands;
    operands.a = copies.load(io.inputs[0]);
    operands.b = io.inputs[1].as<const std::uint8_t>();
    operands.scales = copies.load(io.inputs[2]);
    if (of_.zeros == Zeros::packed) operands.packed_zeros = io.inputs[3].as<const std::uint8_t>();
    if (of_.zeros == Zeros::numbers) operands.zeros = copies.load(io.inputs[3]);
    if (of_.has_bias) operands.bias = copies.load(io.inputs[5]);
    operands.out = copies.target(io.outputs[0]);
    if (is_direct_)
      run_direct(operands, reinterpret_cast<float*>(io.scratch + float_bytes_));
    else
      run_tiles(operands, io.scratch + float_bytes_);
    FloatCopies::store(operands.out, io.outputs[0]);
  }

 private:
  std::int64_t arranged_bytes() const {
    return graph::aligned(of_.rows * ArrangedRows::floats(of_) * 4);
  }
  std::int64_t tile_depth_in_blocks() const {
    return std::max<std::int64_t>(1, tile_depth / of_.block);
  }
  std::int64_t tile_bytes() const {
    return graph::aligned(tile_columns * tile_depth_in_blocks() * of_.block * 4);
  }

  void run_direct(const Operands& operands, float* arranged) const {
    for (std::int64_t row = 0; row < of_.rows; ++row)
      arrange(of_, operands.a + row * of_.depth, arranged + row * ArrangedRows::floats(of_));
    const ArrangedRows rows{of_, operands, arranged};
    const auto multiply = multiply_columns_of(of_.bits);
    const bool is_large = of_.columns * of_.depth > 65536;
    const std::int64_t parts = is_large ? threads_ : 1;
    for_in_threads(threads_, parts, [&](std::int64_t part) {
      multiply(rows, of_.columns * part / parts, of_.columns * (part + 1) / parts);
    });
  }

  void run_tiles(const Operands& operands, std::byte* memory) const {
    const std::int64_t tiles = (of_.columns + tile_columns - 1) / tile_columns;
    in_threads(threads_, [&] {
#pragma omp for schedule(dynamic)
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        auto* const weights =
            reinterpret_cast<float*>(memory + omp_get_thread_num() * tile_bytes());
        const std::int64_t first = tile * tile_columns;
        const std::int64_t columns = std::min(tile_columns, of_.columns - first);
        for (std::int64_t block = 0; block < of_.blocks; block += tile_depth_in_blocks())
          multiply_tile(operands, first, columns, block, weights);
        if (operands.bias == nullptr) continue;
        for (std::int64_t row = 0; row < of_.rows; ++row)
          for (std::int64_t c = 0; c < columns; ++c)
            operands.out[row * of_.columns + first + c] += operands.bias[first + c];
      }
    });
  }

  void multiply_tile(const Operands& operands, std::int64_t first, std::int64_t columns,
                     std::int64_t first_block, float* weights) const {
    const std::int64_t begin = first_block * of_.block;
    const std::int64_t depth = std::min(tile_depth_in_blocks() * of_.block, of_.depth - begin);
    const auto unpack = unpack_of(of_.bits);
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t column = first + c;
      unpack({operands.b + column * of_.row_bytes(), operands.scales + column * of_.blocks,
              zeros_of(of_, operands, column), first_block, of_.block, of_.block_bytes(), depth},
             weights + c * depth);
    }
    const dnnl::status done =
        dnnl::sgemm('N', 'T', of_.rows, columns, depth, 1, operands.a + begin, of_.depth, weights,
                    depth, first_block == 0 ? 0.0F : 1.0F, operands.out + first, of_.columns);
    require(done == dnnl::status::success, "oneDNN multiplies matrices of floats");
  }

  PackedProduct of_;
  int threads_;
  std::int64_t float_bytes_;
  bool is_direct_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_n_bits(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (type != DataType::float32 && !is_half(type)) fail_type(request, type);
  return std::make_unique<MatMulNBits>(request);
}

}  // namespace autopar::runtime::cpu
