// LayerNormalization and RMSNormalization: rows over the trailing dimensions, in float32 (float64
// in its own type).

#include <cmath>

#include "graph/error.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/kernel_arguments.h"
#include "runtime/kernels/cpu/simd_clones.h"

namespace autopar::runtime::cpu {

namespace {

/// Sum of f(i) over a row, in lanes so that it vectorises and rounds less than one long sum.
template <typename T, typename Function>
[[gnu::always_inline]] inline T lane_sum(std::int64_t n, Function f) {
  constexpr int lanes = 16;
  T sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  T sum = 0;
  for (const T part : sums) sum += part;
  for (; i < n; ++i) sum += f(i);
  return sum;
}

template <typename T>
struct Row {
  const T* in;
  const T* scale;
  const T* bias;  ///< may be null
  T* out;
  std::int64_t n;
  T epsilon;
  bool centred;  ///< LayerNormalization takes the mean off, RMSNormalization does not
};

template <typename T>
struct Moments {
  T mean;
  T inverse_deviation;
};

template <typename T>
[[gnu::always_inline]] inline Moments<T> normalize(const Row<T>& row) {
  const auto count = static_cast<T>(row.n);
  const T* in = row.in;
  const T mean =
      row.centred ? lane_sum<T>(row.n, [in](std::int64_t i) { return in[i]; }) / count : T{0};
  const T variance =
      lane_sum<T>(row.n, [in, mean](std::int64_t i) { return (in[i] - mean) * (in[i] - mean); }) /
      count;
  const T inverse = 1 / std::sqrt(variance + row.epsilon);
  for (std::int64_t i = 0; i < row.n; ++i) {
    const T normal = (in[i] - mean) * inverse * row.scale[i];
    row.out[i] = row.bias == nullptr ? normal : normal + row.bias[i];
  }
  return {mean, inverse};
}

AUTOPAR_SIMD_CLONES Moments<float> normalize_row(const Row<float>& row) { return normalize(row); }
Moments<double> normalize_row(const Row<double>& row) { return normalize(row); }

class Normalization final : public Kernel {
 public:
  Normalization(const KernelRequest& request, bool centred)
      : centred_(centred),
        threads_(request.threads),
        epsilon_(request.node.float_attribute("epsilon", 1e-5F)) {
    const Shape& shape = request.inputs[0].shape;
    const std::size_t axis =
        checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
    for (std::size_t i = 0; i < axis; ++i) rows_ *= shape[i];
    for (std::size_t i = axis; i < shape.size(); ++i) extent_ *= shape[i];
    for (std::size_t i = 1; i < request.inputs.size(); ++i) {
      if (request.inputs[i].present() && request.inputs[i].elements() != extent_) {
        fail("node {}: {} wants a scale and bias of the normalised shape", request.node.name,
             request.node.op_type);
      }
    }
    for (const TensorView& view : request.inputs) {
      float_bytes_.push_back(view.present() ? float_bytes(view) : 0);
    }
    float_bytes_.push_back(float_bytes(request.outputs[0]));
  }

  std::int64_t scratch_bytes() const override {
    std::int64_t bytes = 0;
    for (const std::int64_t each : float_bytes_) bytes += each;
    return bytes;
  }

  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    if (out.type == DataType::float64) {
      const double* bias = has_bias(io) ? io.inputs[2].as<const double>() : nullptr;
      return run_rows(io, io.inputs[0].as<const double>(), io.inputs[1].as<const double>(), bias,
                      out.as<double>());
    }
    std::byte* scratch = io.scratch;
    std::size_t taken = 0;
    const auto take = [&] {
      auto* memory = reinterpret_cast<float*>(scratch);
      scratch += float_bytes_[taken++];
      return memory;
    };
    const float* in = as_floats(io.inputs[0], take());
    const float* scale = as_floats(io.inputs[1], take());
    const float* bias = nullptr;
    if (io.inputs.size() > 2) {
      float* memory = take();
      if (has_bias(io)) bias = as_floats(io.inputs[2], memory);
    }
    float* target = float_target(out, take());
    run_rows(io, in, scale, bias, target);
    store_floats(out, target);
  }

 private:
  static bool has_bias(const KernelIo& io) {
    return io.inputs.size() > 2 && io.inputs[2].present();
  }

  template <typename T>
  void run_rows(const KernelIo& io, const T* in, const T* scale, const T* bias, T* out) const {
    const bool is_large = rows_ * extent_ > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t begin = r * extent_;
      const Moments<T> moments = normalize_row(Row<T>{in + begin, scale, bias, out + begin, extent_,
                                                      static_cast<T>(epsilon_), centred_});
      store(io, 1, r, moments.mean);
      store(io, 2, r, moments.inverse_deviation);
    }
  }

  /// The optional outputs Mean and InvStdDev, which are float32 unless the input is float64.
  template <typename T>
  static void store(const KernelIo& io, std::size_t output, std::int64_t row, T value) {
    if (io.outputs.size() <= output || !io.outputs[output].present()) return;
    const TensorView& view = io.outputs[output];
    if (view.type == DataType::float64) {
      view.as<double>()[row] = static_cast<double>(value);
    } else {
      view.as<float>()[row] = static_cast<float>(value);
    }
  }

  bool centred_;
  int threads_;
  float epsilon_;
  std::int64_t rows_ = 1;
  std::int64_t extent_ = 1;
  std::vector<std::int64_t> float_bytes_;
};

std::unique_ptr<Kernel> make(const KernelRequest& request, bool centred) {
  const DataType type = request.inputs[0].type;
  if (type != DataType::float32 && type != DataType::float64 && !is_half(type)) {
    fail("node {}: {} of {} is not served", request.node.name, request.node.op_type, name_of(type));
  }
  return std::make_unique<Normalization>(request, centred);
}

}  // namespace

std::unique_ptr<Kernel> make_layer_normalization(const KernelRequest& request) {
  return make(request, true);
}
std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request) {
  return make(request, false);
}

}  // namespace autopar::runtime::cpu
