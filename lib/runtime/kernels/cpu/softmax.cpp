// Softmax and LogSoftmax along one axis, by oneDNN in float32; float64, which oneDNN has not, by
// a loop.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

namespace {

AxisExtents rows_of(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  return extents_around(
      shape, checked_axis(request, request.node.int_attribute("axis", -1), shape.size()));
}

/// oneDNN leaves NaN in its place and makes zeros of its neighbours, which would hide it from
/// whoever reads one of those.
void spread_nan(float* row, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += row[i];
  if (std::isnan(sum)) std::fill_n(row, n, sum);
}

/// float32, float16, bfloat16.
class Softmax final : public Kernel {
 public:
  Softmax(const KernelRequest& request, bool logarithm)
      : rows_(rows_of(request)),
        threads_(request.device.threads()),
        is_empty_(request.outputs[0].elements() == 0),
        float_bytes_(float_bytes(request)) {
    if (is_empty_) return;
    const auto layout = rows_.inner == 1 ? float_layout({rows_.outer, rows_.extent})
                                         : float_layout({rows_.outer, rows_.extent, rows_.inner});
    const dnnl::softmax_v2_forward::desc description(
        dnnl::prop_kind::forward_inference,
        logarithm ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, layout,
        layout, 1);
    softmax_ = OnednnPrimitive(
        dnnl::softmax_v2_forward::primitive_desc(description, user_scratchpad(), onednn_engine()),
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
      : rows_(rows_of(request)), logarithm_(logarithm) {}

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
  return std::make_unique<Softmax>(request, logarithm);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

}  // namespace autopar::runtime::cpu
