// Softmax along one axis by oneDNN, in float32. By loops: LogSoftmax, of which oneDNN's is 1e-6 off
// where a row has one large number or one alone, and what is of float64.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/simd_clones.h"
#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/elementwise/math.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cpu {

namespace {

/// oneDNN leaves NaN in its place and makes zeros of its neighbours, which would hide it from
/// whoever reads one of those. `rows` stand side by side, element i of row r at i * rows + r.
void spread_nan(float* block, std::int64_t extent, std::int64_t rows) {
  const std::int64_t n = extent * rows;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += block[i];
  if (!std::isnan(sum)) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    float of_row = 0;
    for (std::int64_t i = r; i < n; i += rows) of_row += block[i];
    if (!std::isnan(of_row)) continue;
    for (std::int64_t i = r; i < n; i += rows) block[i] = of_row;
  }
}

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

/// Taken off one after the other: beside a large number the logarithm of the sum would be lost.
AUTOPAR_SIMD_CLONES void log_softmax_abreast(const RowsAbreast& block) {
  float largest[most_lanes];
  float sums[most_lanes];
  for (std::int64_t r = 0; r < block.rows; ++r) {
    largest[r] = -std::numeric_limits<float>::infinity();
    sums[r] = 0;
  }
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const float* in = block.in + i * block.inner;
    for (std::int64_t r = 0; r < block.rows; ++r)
      largest[r] = in[r] > largest[r] ? in[r] : largest[r];
  }
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const float* in = block.in + i * block.inner;
#pragma omp simd
    for (std::int64_t r = 0; r < block.rows; ++r) sums[r] += math::exp(in[r] - largest[r]);
  }
  for (std::int64_t r = 0; r < block.rows; ++r) sums[r] = std::log(sums[r]);
  for (std::int64_t i = 0; i < block.extent; ++i) {
    const std::int64_t at = i * block.inner;
    for (std::int64_t r = 0; r < block.rows; ++r)
      block.out[at + r] = block.in[at + r] - largest[r] - sums[r];
  }
}

AUTOPAR_SIMD_CLONES void log_softmax_row(const float* in, float* out, std::int64_t n) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = in[i] > largest ? in[i] : largest;
  const float log_sum = std::log(
      lane_sum<float>(n, [in, largest](std::int64_t i) { return math::exp(in[i] - largest); }));
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] - largest - log_sum;
}

/// float32, float16, bfloat16.
std::unique_ptr<Kernel> make_float_log_softmax(const KernelRequest& request,
                                               const AxisExtents& rows) {
  const auto run = [rows, threads = request.device.threads()](const KernelIo& io) {
    FloatCopies copies(io.scratch);
    float* out = copies.target(io.outputs[0]);
    const float* in = copies.load(io.inputs[0]);
    const std::int64_t blocks = (rows.inner + most_lanes - 1) / most_lanes;
    const bool is_large = rows.rows() * rows.extent >= 1 << 14;
#pragma omp parallel for num_threads(threads) if (is_large)
    for (std::int64_t task = 0; task < rows.outer * blocks; ++task) {
      const std::int64_t first = task % blocks * most_lanes;
      const std::int64_t begin = task / blocks * rows.extent * rows.inner + first;
      if (rows.inner == 1)
        log_softmax_row(in + begin, out + begin, rows.extent);
      else
        log_softmax_abreast({in + begin, out + begin, rows.extent, rows.inner,
                             std::min(most_lanes, rows.inner - first)});
    }
    FloatCopies::store(out, io.outputs[0]);
  };
  return make_kernel(run, float_bytes(request));
}

/// float32, float16, bfloat16.
std::unique_ptr<Kernel> make_float_softmax(const KernelRequest& request, const AxisExtents& rows) {
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  const auto layout = rows.inner == 1 ? float_layout({rows.outer, rows.extent})
                                      : float_layout({rows.outer, rows.extent, rows.inner});
  const auto description =
      describe_primitive<onednn::Softmax>(user_scratchpad(), dnnl::prop_kind::forward_inference,
                                          dnnl::algorithm::softmax_accurate, layout, layout, 1);
  const OnednnPrimitive primitive(description, {DNNL_ARG_SRC, DNNL_ARG_DST});
  const auto run = [rows, softmax = primitive,
                    threads = request.device.threads()](const KernelIo& io) mutable {
    FloatCopies copies(io.scratch + softmax.scratch_bytes());
    float* out = copies.target(io.outputs[0]);
    softmax.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
    softmax.bind(DNNL_ARG_DST, out);
    softmax.run(io.scratch);
    // Below this, waiting for threads once more costs what they save.
    const bool is_large = rows.outer * rows.extent * rows.inner >= 1 << 20;
#pragma omp parallel for num_threads(threads) if (is_large)
    for (std::int64_t row = 0; row < rows.outer; ++row)
      spread_nan(out + row * rows.extent * rows.inner, rows.extent, rows.inner);
    FloatCopies::store(out, io.outputs[0]);
  };
  return make_kernel(run, primitive.scratch_bytes() + float_bytes(request));
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
  return logarithm ? make_float_log_softmax(request, rows) : make_float_softmax(request, rows);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

}  // namespace autopar::runtime::cpu
