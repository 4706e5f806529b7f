// MatMulNBits: weights stay packed in memory. A few rows read them as they are; more rows take them
// tile by tile, unpacked into the cache, through oneDNN's product.

#include "runtime/kernels/matmul_n_bits.h"

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "graph/error.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/simd_clones.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {
namespace {

using Zeros = PackedProduct::Zeros;

/// More rows than this are worth unpacking for.
constexpr std::int64_t most_direct_rows = 4;
constexpr std::int64_t tile_columns = 64;
constexpr std::int64_t tile_depth = 1024;

/// The numbers of `count` bytes, part by part: part p has those at place p of each byte.
template <int bits>
[[gnu::always_inline]] inline float dot(const std::uint8_t* bytes, const float* a,
                                        std::int64_t count) {
  constexpr int parts = 8 / bits;
  float sum = 0;
  for (int part = 0; part < parts; ++part) {
    const float* const own = a + part * count;
    float partial = 0;
#pragma omp simd reduction(+ : partial)
    for (std::int64_t i = 0; i < count; ++i)
      partial += own[i] * static_cast<float>((bytes[i] >> (part * bits)) & ((1 << bits) - 1));
    sum += partial;
  }
  return sum;
}

AUTOPAR_SIMD_CLONES float dot_2(const std::uint8_t* bytes, const float* a, std::int64_t count) {
  return dot<2>(bytes, a, count);
}
AUTOPAR_SIMD_CLONES float dot_4(const std::uint8_t* bytes, const float* a, std::int64_t count) {
  return dot<4>(bytes, a, count);
}
AUTOPAR_SIMD_CLONES float dot_8(const std::uint8_t* bytes, const float* a, std::int64_t count) {
  return dot<8>(bytes, a, count);
}

/// out[i] = scale (q[i] - zero)
template <int bits>
[[gnu::always_inline]] inline void unpack(const std::uint8_t* bytes, std::int64_t n, float scale,
                                          float zero, float* out) {
  constexpr std::int64_t parts = 8 / bits;
  for (std::int64_t i = 0; i < n / parts; ++i)
    for (std::int64_t part = 0; part < parts; ++part)
      out[i * parts + part] =
          scale * (static_cast<float>((bytes[i] >> (part * bits)) & ((1 << bits) - 1)) - zero);
  for (std::int64_t i = n / parts * parts; i < n; ++i)
    out[i] = scale * (static_cast<float>(packed_number(bytes, i, bits)) - zero);
}

AUTOPAR_SIMD_CLONES void unpack_block(const std::uint8_t* bytes, std::int64_t n, int bits,
                                      float scale, float zero, float* out) {
  if (bits == 2)
    unpack<2>(bytes, n, scale, zero, out);
  else if (bits == 4)
    unpack<4>(bytes, n, scale, zero, out);
  else
    unpack<8>(bytes, n, scale, zero, out);
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
  /// A row's numbers in whole blocks, and each block's sum.
  std::int64_t arranged_row() const { return of_.blocks * of_.block + of_.blocks; }
  std::int64_t arranged_bytes() const { return graph::aligned(of_.rows * arranged_row() * 4); }
  std::int64_t tile_depth_in_blocks() const {
    return std::max<std::int64_t>(1, tile_depth / of_.block);
  }
  std::int64_t tile_bytes() const {
    return graph::aligned(tile_columns * tile_depth_in_blocks() * of_.block * 4);
  }

  float zero_of(const Operands& operands, std::int64_t column, std::int64_t block) const {
    if (of_.zeros == Zeros::numbers) return operands.zeros[column * of_.blocks + block];
    if (of_.zeros == Zeros::packed)
      return static_cast<float>(
          packed_number(operands.packed_zeros + column * of_.zero_bytes(), block, of_.bits));
    return static_cast<float>(1 << (of_.bits - 1));
  }

  /// Puts the numbers of a block that share a place in their bytes side by side, zeros behind the
  /// last.
  void arrange(const float* row, float* to) const {
    const std::int64_t parts = 8 / of_.bits;
    const std::int64_t bytes = of_.block_bytes();
    for (std::int64_t block = 0; block < of_.blocks; ++block) {
      float sum = 0;
      for (std::int64_t i = 0; i < of_.block; ++i) {
        const std::int64_t k = block * of_.block + i;
        const float x = k < of_.depth ? row[k] : 0.0F;
        to[block * of_.block + i % parts * bytes + i / parts] = x;
        sum += x;
      }
      to[of_.blocks * of_.block + block] = sum;
    }
  }

  void run_direct(const Operands& operands, float* arranged) const {
    for (std::int64_t row = 0; row < of_.rows; ++row)
      arrange(operands.a + row * of_.depth, arranged + row * arranged_row());
    const auto dot = of_.bits == 2 ? dot_2 : of_.bits == 4 ? dot_4 : dot_8;
    const std::int64_t bytes = of_.block_bytes();
    const bool is_large = of_.columns * of_.depth > 16384;
#pragma omp parallel for num_threads(threads_) schedule(static) if (is_large)
    for (std::int64_t column = 0; column < of_.columns; ++column) {
      const std::uint8_t* const weights = operands.b + column * of_.row_bytes();
      float sums[most_direct_rows] = {};
      for (std::int64_t block = 0; block < of_.blocks; ++block) {
        const float scale = operands.scales[column * of_.blocks + block];
        const float zero = zero_of(operands, column, block);
        for (std::int64_t row = 0; row < of_.rows; ++row) {
          const float* const a = arranged + row * arranged_row();
          const float whole = dot(weights + block * bytes, a + block * of_.block, bytes);
          sums[row] += scale * (whole - zero * a[of_.blocks * of_.block + block]);
        }
      }
      for (std::int64_t row = 0; row < of_.rows; ++row)
        operands.out[row * of_.columns + column] =
            sums[row] + (operands.bias != nullptr ? operands.bias[column] : 0.0F);
    }
  }

  void run_tiles(const Operands& operands, std::byte* memory) const {
    const std::int64_t tiles = (of_.columns + tile_columns - 1) / tile_columns;
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      auto* const weights = reinterpret_cast<float*>(memory + omp_get_thread_num() * tile_bytes());
      const std::int64_t first = tile * tile_columns;
      const std::int64_t columns = std::min(tile_columns, of_.columns - first);
      for (std::int64_t block = 0; block < of_.blocks; block += tile_depth_in_blocks())
        multiply_tile(operands, first, columns, block, weights);
      if (operands.bias == nullptr) continue;
      for (std::int64_t row = 0; row < of_.rows; ++row)
        for (std::int64_t c = 0; c < columns; ++c)
          operands.out[row * of_.columns + first + c] += operands.bias[first + c];
    }
  }

  void multiply_tile(const Operands& operands, std::int64_t first, std::int64_t columns,
                     std::int64_t first_block, float* weights) const {
    const std::int64_t begin = first_block * of_.block;
    const std::int64_t depth = std::min(tile_depth_in_blocks() * of_.block, of_.depth - begin);
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t k = 0; k < depth; k += of_.block) {
        const std::int64_t block = (begin + k) / of_.block;
        unpack_block(operands.b + (first + c) * of_.row_bytes() + block * of_.block_bytes(),
                     std::min(of_.block, depth - k), of_.bits,
                     operands.scales[(first + c) * of_.blocks + block],
                     zero_of(operands, first + c, block), weights + c * depth + k);
      }
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
