// Softmax along one axis by oneDNN, in float32. By loops: LogSoftmax, of which oneDNN's is 1e-6 off
// where a row has one large number or one alone, and what is of float64.

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/cpu/simd_clones.h"
#include "runtime/kernels/elementwise/math.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cpu {

namespace {

/// oneDNN leaves NaN in its place and makes zeros of its neighbours, which would hide it from
/// whoever reads one of those.
void spread_nan(float* row, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += row[i];
  if (std::isnan(sum)) std::fill_n(row, n, sum);
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
class LogSoftmax final : public Kernel {
 public:
  explicit LogSoftmax(const KernelRequest& request)
      : rows_(extents_around_axis(request, request.inputs[0].shape, -1)),
        threads_(request.device.threads()),
        float_bytes_(float_bytes(request)) {}

  std::int64_t scratch_bytes() const override { return float_bytes_; }

  void run(const KernelIo& io) override {
    FloatCopies copies(io.scratch);
    float* out = copies.target(io.outputs[0]);
    const float* in = copies.load(io.inputs[0]);
    const std::int64_t blocks = (rows_.inner + most_lanes - 1) / most_lanes;
    const bool is_large = rows_.rows() * rows_.extent >= 1 << 14;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t task = 0; task < rows_.outer * blocks; ++task) {
      const std::int64_t first = task % blocks * most_lanes;
      const std::int64_t begin = task / blocks * rows_.extent * rows_.inner + first;
      if (rows_.inner == 1)
        log_softmax_row(in + begin, out + begin, rows_.extent);
      else
        log_softmax_abreast({in + begin, out + begin, rows_.extent, rows_.inner,
                             std::min(most_lanes, rows_.inner - first)});
    }
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  AxisExtents rows_;
  int threads_;
  std::int64_t float_bytes_;
};

/// float32, float16, bfloat16.
class Softmax final : public Kernel {
 public:
  explicit Softmax(const KernelRequest& request)
      : rows_(extents_around_axis(request, request.inputs[0].shape, -1)),
        threads_(request.device.threads()),
        is_empty_(request.outputs[0].elements() == 0),
        float_bytes_(float_bytes(request)) {
    if (is_empty_) return;
    const auto layout = rows_.inner == 1 ? float_layout({rows_.outer, rows_.extent})
                                         : float_layout({rows_.outer, rows_.extent, rows_.inner});
    const dnnl::softmax_v2_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, layout, layout, 1);
    softmax_ = OnednnPrimitive(describe_primitive<dnnl::softmax_v2_forward>(description),
                               {DNNL_ARG_SRC, DNNL_ARG_DST});
  }

  std::int64_t scratch_bytes() const override { return softmax_.scratch_bytes() + float_bytes_; }

  void run(const KernelIo& io) override {
    if (is_empty_) return;
    FloatCopies copies(io.scratch + softmax_.scratch_bytes());
    float* out = copies.target(io.outputs[0]);
    softmax_.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
    softmax_.bind(DNNL_ARG_DST, out);
    softmax_.run(io.scratch);
    if (rows_.inner == 1) {
      // Below this, waiting for threads once more costs what they save.
      const bool is_large = rows_.outer * rows_.extent >= 1 << 20;
#pragma omp parallel for num_threads(threads_) if (is_large)
      for (std::int64_t row = 0; row < rows_.outer; ++row)
        spread_nan(out + row * rows_.extent, rows_.extent);
    }
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  OnednnPrimitive softmax_;
  AxisExtents rows_;
  int threads_;
  bool is_empty_;
  std::int64_t float_bytes_;
};

class DoubleSoftmax final : public Kernel {
 public:
  DoubleSoftmax(const KernelRequest& request, bool logarithm)
      : rows_(extents_around_axis(request, request.inputs[0].shape, -1)), logarithm_(logarithm) {}

  void run(const KernelIo& io) override {
    for (std::int64_t row = 0; row < rows_.rows(); ++row) {
      const std::int64_t begin = rows_.row_offset(row);
      run_row(io.inputs[0].as<const double>() + begin, io.outputs[0].as<double>() + begin);
    }
  }

 private:
  /// The maximum is taken off first, so that exp cannot overflow.
  void run_row(const double* in, double* out) const {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < rows_.extent; ++i)
      largest = std::max(largest, in[i * rows_.inner]);
    double sum = 0;
    for (std::int64_t i = 0; i < rows_.extent; ++i) sum += std::exp(in[i * rows_.inner] - largest);
    // Taken off one after the other: beside a large number the logarithm would be lost.
    const double log_sum = std::log(sum);
    for (std::int64_t i = 0; i < rows_.extent; ++i) {
      const double x = in[i * rows_.inner];
      out[i * rows_.inner] = logarithm_ ? x - largest - log_sum : std::exp(x - largest) / sum;
    }
  }

  AxisExtents rows_;
  bool logarithm_;
};

std::unique_ptr<Kernel> make(const KernelRequest& request, bool logarithm) {
  const DataType type = request.inputs[0].type;
  if (type == DataType::float64) return std::make_unique<DoubleSoftmax>(request, logarithm);
  if (type != DataType::float32 && !is_half(type)) fail_type(request, type);
  if (logarithm) return std::make_unique<LogSoftmax>(request);
  return std::make_unique<Softmax>(request);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

}  // namespace autopar::runtime::cpu
