// LayerNormalization by oneDNN, in float32. What oneDNN has not (RMSNormalization, float64) is
// computed by loops.

#include <cmath>

#include "base/simd_clones.h"
#include "runtime/device.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/normalized_rows.h"

namespace autopar::runtime::cpu {

namespace {

template <typename T>
struct Row {
  const T* in;  ///< [n], as all of these
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

/// Into the optional outputs Mean and InvStdDev, whose type is their own.
void store_moments(const KernelIo& io, std::int64_t row, Moments<double> moments) {
  const auto store = [&](std::size_t output, double value) {
    if (is_given(io.outputs, output)) AnyFloats(io.outputs[output]).store(row, value);
  };
  store(1, moments.mean);
  store(2, moments.inverse_deviation);
}

/// LayerNormalization of float32, float16, bfloat16.
std::unique_ptr<Kernel> make_onednn(const KernelRequest& request) {
  using dnnl::normalization_flags;
  const NormalizedRows rows(request);
  const bool has_bias = is_given(request.inputs, 2);
  const bool has_moments = is_given(request.outputs, 1) || is_given(request.outputs, 2);
  const auto description = within_onednn([&] {
    return onednn::describe_layer_normalization(
        onednn_engine(), user_scratchpad(),
        has_moments ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
        float_layout({rows.count, rows.extent}), float_layout({rows.count}), rows.epsilon,
        has_bias ? normalization_flags::use_scale | normalization_flags::use_shift
                 : normalization_flags::use_scale);
  });
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_DST};
  if (has_bias) arguments.push_back(DNNL_ARG_SHIFT);
  if (has_moments) arguments.insert(arguments.end(), {DNNL_ARG_MEAN, DNNL_ARG_VARIANCE});
  const OnednnPrimitive primitive(description, arguments);
  const std::int64_t copied_bytes = float_bytes(request);
  const auto run = [=, normalization = primitive](const KernelIo& io) mutable {
    std::byte* copied = io.scratch + normalization.scratch_bytes();
    FloatCopies copies(copied);
    float* out = copies.target(io.outputs[0]);
    normalization.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
    normalization.bind(DNNL_ARG_SCALE, copies.load(io.inputs[1]));
    if (has_bias) normalization.bind(DNNL_ARG_SHIFT, copies.load(io.inputs[2]));
    normalization.bind(DNNL_ARG_DST, out);
    const float* mean = reinterpret_cast<float*>(copied + copied_bytes);
    const float* variance = mean + rows.count;
    if (has_moments) {
      normalization.bind(DNNL_ARG_MEAN, mean);
      normalization.bind(DNNL_ARG_VARIANCE, variance);
    }
    normalization.run(io.scratch);
    FloatCopies::store(out, io.outputs[0]);
    if (!has_moments) return;
    for (std::int64_t row = 0; row < rows.count; ++row)
      store_moments(io, row, {mean[row], 1 / std::sqrt(variance[row] + rows.epsilon)});
  };
  const std::int64_t moments = has_moments ? 2 * rows.count : 0;
  return make_kernel(run, primitive.scratch_bytes() + copied_bytes +
                              moments * static_cast<std::int64_t>(sizeof(float)));
}

template <typename T>
void normalize_rows(const KernelIo& io, std::int64_t count, int threads, const Row<T>& first) {
  const bool is_large = count * first.n > 16384;
  for_in_threads(is_large ? threads : 1, count, [&](std::int64_t i) {
    Row<T> row = first;
    row.in += i * row.n;
    row.out += i * row.n;
    const Moments<T> moments = normalize_row(row);
    store_moments(io, i, {moments.mean, moments.inverse_deviation});
  });
}

/// RMSNormalization, and LayerNormalization of what oneDNN does not take: float64, empty tensors.
std::unique_ptr<Kernel> make_plain(const KernelRequest& request, bool centred) {
  const NormalizedRows rows(request);
  const auto run = [=, threads = request.device.threads()](const KernelIo& io) {
    const TensorView& out = io.outputs[0];
    if (out.type == DataType::float64)
      return normalize_rows<double>(
          io, rows.count, threads,
          {io.inputs[0].as<const double>(), io.inputs[1].as<const double>(),
           optional_data<const double>(io.inputs, 2), out.as<double>(), rows.extent, rows.epsilon,
           centred});
    FloatCopies copies(io.scratch);
    const float* in = copies.load(io.inputs[0]);
    const float* scale = copies.load(io.inputs[1]);
    const float* bias = is_given(io.inputs, 2) ? copies.load(io.inputs[2]) : nullptr;
    float* target = copies.target(out);
    normalize_rows<float>(io, rows.count, threads,
                          {in, scale, bias, target, rows.extent, rows.epsilon, centred});
    FloatCopies::store(target, out);
  };
  return make_kernel(run, float_bytes(request));
}

}  // namespace

std::unique_ptr<Kernel> make_layer_normalization(const KernelRequest& request) {
  if (has_broadcast_scale(request)) return make_broadcast_normalization(request);
  const TensorView& in = request.inputs[0];
  if (in.type == DataType::float64 || in.elements() == 0) return make_plain(request, true);
  return make_onednn(request);
}

std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request) {
  if (has_broadcast_scale(request)) return make_broadcast_normalization(request);
  return make_plain(request, false);
}

}  // namespace autopar::runtime::cpu
