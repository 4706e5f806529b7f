// Softmax and LogSoftmax along one axis, in float32 (float64 in its own type).

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/kernel_arguments.h"
#include "runtime/kernels/cpu/simd_clones.h"
#include "runtime/kernels/elementwise_math.h"

namespace autopar::runtime::cpu {

namespace {

/// One row; elements `stride` apart. The maximum is taken off first, so that exp cannot overflow.
template <typename T>
[[gnu::always_inline]] inline void softmax_row(const T* in, T* out, std::int64_t n,
                                               std::int64_t stride, bool logarithm) {
  T largest = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, in[i * stride]);
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T e = math::exp(in[i * stride] - largest);
    if (!logarithm) out[i * stride] = e;
    sum += e;
  }
  if (logarithm) {
    const T shift = largest + std::log(sum);
    for (std::int64_t i = 0; i < n; ++i) out[i * stride] = in[i * stride] - shift;
  } else {
    const T factor = 1 / sum;
    for (std::int64_t i = 0; i < n; ++i) out[i * stride] *= factor;
  }
}

/// The common row: neighbouring floats, written so that each loop vectorises (sums in parts).
AUTOPAR_SIMD_CLONES void softmax_floats(const float* in, float* out, std::int64_t n) {
  constexpr int lanes = 16;
  float largest_of[lanes];
  float sum_of[lanes] = {};
  std::fill(largest_of, largest_of + lanes, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const float x = in[i + lane];
      largest_of[lane] = x > largest_of[lane] ? x : largest_of[lane];
    }
  }
  float largest = *std::max_element(largest_of, largest_of + lanes);
  for (; i < n; ++i) largest = std::max(largest, in[i]);
  for (i = 0; i + lanes <= n; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const float e = math::exp(in[i + lane] - largest);
      out[i + lane] = e;
      sum_of[lane] += e;
    }
  }
  float sum = 0;
  for (const float part : sum_of) sum += part;
  for (; i < n; ++i) sum += out[i] = math::exp(in[i] - largest);
  const float factor = 1.0F / sum;
  for (i = 0; i < n; ++i) out[i] *= factor;
}

class Softmax final : public Kernel {
 public:
  Softmax(const KernelRequest& request, bool logarithm)
      : logarithm_(logarithm),
        threads_(request.threads),
        float_bytes_{float_bytes(request.inputs[0]), float_bytes(request.outputs[0])} {
    const Shape& shape = request.inputs[0].shape;
    const std::size_t axis =
        checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
    for (std::size_t i = 0; i < axis; ++i) outer_ *= shape[i];
    extent_ = shape[axis];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner_ *= shape[i];
  }

  std::int64_t scratch_bytes() const override { return float_bytes_[0] + float_bytes_[1]; }

  void run(const KernelIo& io) override {
    if (extent_ == 0) return;
    if (io.inputs[0].type == DataType::float64) {
      return run_rows(io.inputs[0].as<const double>(), io.outputs[0].as<double>());
    }
    const float* in = as_floats(io.inputs[0], reinterpret_cast<float*>(io.scratch));
    float* out =
        float_target(io.outputs[0], reinterpret_cast<float*>(io.scratch + float_bytes_[0]));
    run_rows(in, out);
    store_floats(io.outputs[0], out);
  }

 private:
  template <typename T>
  void run_rows(const T* in, T* out) const {
    const std::int64_t rows = outer_ * inner_;
    const bool is_large = rows * extent_ > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t begin = row / inner_ * extent_ * inner_ + row % inner_;
      if constexpr (std::is_same_v<T, float>) {
        if (inner_ == 1 && !logarithm_) {
          softmax_floats(in + begin, out + begin, extent_);
          continue;
        }
      }
      softmax_row(in + begin, out + begin, extent_, inner_, logarithm_);
    }
  }

  bool logarithm_;
  int threads_;
  std::int64_t float_bytes_[2];
  std::int64_t outer_ = 1;
  std::int64_t extent_ = 1;
  std::int64_t inner_ = 1;
};

std::unique_ptr<Kernel> make(const KernelRequest& request, bool logarithm) {
  const DataType type = request.inputs[0].type;
  if (type != DataType::float32 && type != DataType::float64 && !is_half(type)) {
    fail("node {}: {} of {} is not served", request.node.name, request.node.op_type, name_of(type));
  }
  return std::make_unique<Softmax>(request, logarithm);
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

}  // namespace autopar::runtime::cpu
