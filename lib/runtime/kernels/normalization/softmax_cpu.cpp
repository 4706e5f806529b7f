// Softmax and LogSoftmax along one axis. oneDNN's leave NaN in its place and make zeros of its
// neighbours, take far longer along any axis but the last, and its LogSoftmax is 1e-6 off where a
// row has one large number or one alone.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/simd_clones.h"
#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/elementwise/math.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cpu {

namespace {

/// Rows that stand side by side, one element of each after the other: element i of row r at
/// i * inner + r. No more than `most_lanes` of them.
struct RowsAbreast {
  const float* in;
  float* out;
  std::int64_t extent;
  std::int64_t inner;
  std::int64_t rows;
};
constexpr std::int64_t most_lanes = 64;

struct Lanes {
  float numbers[most_lanes];
};

[[gnu::always_inline]] inline void find_largest(const RowsAbreast& block, Lanes& largest) {
  std::fill_n(largest.numbers, block.rows, -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const float* in = block.in + i * block.inner;
    for (std::int64_t r = 0; r < block.rows; ++r)
      largest.numbers[r] = in[r] > largest.numbers[r] ? in[r] : largest.numbers[r];
  }
}

AUTOPAR_SIMD_CLONES void softmax_abreast(const RowsAbreast& block) {
  Lanes largest;
  find_largest(block, largest);
  Lanes sums = {};
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const float* in = block.in + i * block.inner;
    float* out = block.out + i * block.inner;
#pragma omp simd
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const float e = math::exp_of_negative(in[r] - largest.numbers[r]);
      out[r] = e;
      sums.numbers[r] += e;
    }
  }
  for (std::int64_t r = 0; r < block.rows; ++r) sums.numbers[r] = 1 / sums.numbers[r];
  for (std::int64_t i = 0; i < block.extent; ++i) {
    float* out = block.out + i * block.inner;
    for (std::int64_t r = 0; r < block.rows; ++r) out[r] *= sums.numbers[r];
  }
}

/// Taken off one after the other: beside a large number the logarithm of the sum would be lost.
AUTOPAR_SIMD_CLONES void log_softmax_abreast(const RowsAbreast& block) {
  Lanes largest;
  find_largest(block, largest);
  Lanes sums = {};
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const float* in = block.in + i * block.inner;
#pragma omp simd
    for (std::int64_t r = 0; r < block.rows; ++r)
      sums.numbers[r] += math::exp_of_negative(in[r] - largest.numbers[r]);
  }
  for (std::int64_t r = 0; r < block.rows; ++r) sums.numbers[r] = std::log(sums.numbers[r]);
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const std::int64_t at = i * block.inner;
    for (std::int64_t r = 0; r < block.rows; ++r)
      block.out[at + r] = block.in[at + r] - largest.numbers[r] - sums.numbers[r];
  }
}

AUTOPAR_SIMD_CLONES void softmax_row(const float* in, float* out, std::int64_t n) {
  const float largest = lane_largest(in, n);
  const float share = 1 / lane_sum<float>(n, [in, out, largest](std::int64_t i) {
                        return out[i] = math::exp_of_negative(in[i] - largest);
                      });
  for (std::int64_t i = 0; i < n; ++i) out[i] *= share;
}

AUTOPAR_SIMD_CLONES void log_softmax_row(const float* in, float* out, std::int64_t n) {
  const float largest = lane_largest(in, n);
  const float log_sum = std::log(lane_sum<float>(
      n, [in, largest](std::int64_t i) { return math::exp_of_negative(in[i] - largest); }));
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] - largest - log_sum;
}

/// float32, float16, bfloat16.
std::unique_ptr<Kernel> make_float(const KernelRequest& request, const AxisExtents& rows,
                                   bool logarithm) {
  const auto of_row = logarithm ? log_softmax_row : softmax_row;
  const auto abreast = logarithm ? log_softmax_abreast : softmax_abreast;
  const auto run = [=, threads = request.device.threads()](const KernelIo& io) {
    FloatCopies copies(io.scratch);
    float* out = copies.target(io.outputs[0]);
    const float* in = copies.load(io.inputs[0]);
    const std::int64_t blocks = (rows.inner + most_lanes - 1) / most_lanes;
    const bool is_large = rows.rows() * rows.extent >= 1 << 14;
    for_in_threads(is_large ? threads : 1, rows.outer * blocks, [&](std::int64_t task) {
      const std::int64_t first = task % blocks * most_lanes;
      const std::int64_t begin = task / blocks * rows.extent * rows.inner + first;
      if (rows.inner == 1)
        of_row(in + begin, out + begin, rows.extent);
      else
        abreast({in + begin, out + begin, rows.extent, rows.inner,
                 std::min(most_lanes, rows.inner - first)});
    });
    FloatCopies::store(out, io.outputs[0]);
  };
  return make_kernel(run, float_bytes(request));
}

/// A row of double, whose elements stand `rows.inner` apart. The maximum is taken off first, so
/// that exp cannot overflow.
void softmax_row(const AxisExtents& rows, bool logarithm, const double* in, double* out) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < rows.extent; ++i) largest = std::max(largest, in[i * rows.inner]);
  double sum = 0;
  for (std::int64_t i = 0; i < rows.extent; ++i) sum += std::exp(in[i * rows.inner] - largest);
  // Taken off one after the other: beside a large number the logarithm would be lost.
  const double log_sum = std::log(sum);
  for (std::int64_t i = 0; i < rows.extent; ++i) {
    const double x = in[i * rows.inner];
    out[i * rows.inner] = logarithm ? x - largest - log_sum : std::exp(x - largest) / sum;
  }
}

std::unique_ptr<Kernel> make(const KernelRequest& request, bool logarithm) {
  const DataType type = request.inputs[0].type;
  require_type(request, type, AllFloats{});
  const AxisExtents rows = extents_around_axis(request, request.inputs[0].shape, -1);
  if (type == DataType::float64)
    return make_kernel([=](const KernelIo& io) {
      for (std::int64_t row = 0; row < rows.rows(); ++row) {
        const std::int64_t begin = rows.row_offset(row);
        softmax_row(rows, logarithm, io.inputs[0].as<const double>() + begin,
                    io.outputs[0].as<double>() + begin);
      }
    });
  return make_float(request, rows, logarithm);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

}  // namespace autopar::runtime::cpu
