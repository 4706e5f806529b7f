// LayerNormalization and RMSNormalization: each row by one thread, which reads it three times.

#include <cmath>

#include "base/simd_clones.h"
#include "runtime/device.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lane_sum.h"
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
  if (row.bias == nullptr)
    for (std::int64_t i = 0; i < row.n; ++i) row.out[i] = (in[i] - mean) * inverse * row.scale[i];
  else
    for (std::int64_t i = 0; i < row.n; ++i)
      row.out[i] = (in[i] - mean) * inverse * row.scale[i] + row.bias[i];
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

std::unique_ptr<Kernel> make_normalization(const KernelRequest& request, bool centred) {
  if (has_broadcast_scale(request)) return make_broadcast_normalization(request);
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
  return make_normalization(request, true);
}

std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request) {
  return make_normalization(request, false);
}

}  // namespace autopar::runtime::cpu
