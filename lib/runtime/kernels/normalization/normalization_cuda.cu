// LayerNormalization and RMSNormalization: a block a row, in float, or double for double.

#include <algorithm>

#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/normalized_rows.h"

namespace autopar::runtime::cuda {
namespace {

__device__ inline float inverse_root(float x) { return 1.0F / sqrtf(x); }
__device__ inline double inverse_root(double x) { return 1.0 / sqrt(x); }

template <typename T>
struct Rows {
  const T* in;     ///< [rows, extent]
  const T* scale;  ///< [extent]
  const T* bias;   ///< [extent]; may be null
  T* out;          ///< as in
  AnyFloats mean;  ///< one number a row; of no type where it is left out
  AnyFloats inverse_deviation;
  std::int64_t extent;
  Widened<T> epsilon;
  bool centred;  ///< LayerNormalization takes the mean off, RMSNormalization does not
};

/// Packs of a row that a thread keeps in registers; what is beyond is read again.
constexpr int kept_packs = 4;

/// Calls `use(pack, place, is_kept)` for this thread's packs of N elements of a row.
template <int N, typename Use>
__device__ __forceinline__ void for_packs(std::int64_t extent, Use use) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * N;
  std::int64_t at = static_cast<std::int64_t>(threadIdx.x) * N;
#pragma unroll
  for (int i = 0; i < kept_packs; ++i, at += step)
    if (at < extent) use(i, at);
  for (; at < extent; at += step) use(kept_packs, at);
}

constexpr int row_threads = 512;

/// N divides the extent.
template <typename T, int N>
__global__ void __launch_bounds__(row_threads) normalize_rows(Rows<T> rows) {
  using W = Widened<T>;
  const std::int64_t row = blockIdx.x;
  const T* in = rows.in + row * rows.extent;
  T* out = rows.out + row * rows.extent;
  W kept[kept_packs][N];
  const auto for_elements = [&](auto use) {
    for_packs<N>(rows.extent, [&](int i, std::int64_t at) {
      if (i < kept_packs) {
#pragma unroll
        for (int j = 0; j < N; ++j) use(kept[i][j]);
      } else {
        const Pack<T, N> pack = load_pack<T, N>(in + at);
#pragma unroll
        for (int j = 0; j < N; ++j) use(static_cast<W>(widened(pack.values[j])));
      }
    });
  };
  for_packs<N>(rows.extent, [&](int i, std::int64_t at) {
    if (i == kept_packs) return;
    const Pack<T, N> pack = load_pack<T, N>(in + at);
#pragma unroll
    for (int j = 0; j < N; ++j) kept[i][j] = static_cast<W>(widened(pack.values[j]));
  });
  const W count = static_cast<W>(rows.extent);
  W mean = 0;
  if (rows.centred) {
    W sum = 0;
    for_elements([&](W x) { sum += x; });
    mean = reduce_block(sum, W{0}, Plus{}) / count;
  }
  W squares = 0;
  for_elements([&](W x) { squares += (x - mean) * (x - mean); });
  const W variance = reduce_block(squares, W{0}, Plus{}) / count;
  const W inverse = inverse_root(variance + rows.epsilon);
  for_packs<N>(rows.extent, [&](int i, std::int64_t at) {
    const Pack<T, N> again = i < kept_packs ? Pack<T, N>{} : load_pack<T, N>(in + at);
    const Pack<T, N> scale = load_pack<T, N>(rows.scale + at);
    const Pack<T, N> bias = rows.bias == nullptr ? Pack<T, N>{} : load_pack<T, N>(rows.bias + at);
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const W x = i < kept_packs ? kept[i][j] : static_cast<W>(widened(again.values[j]));
      const W normal = (x - mean) * inverse * static_cast<W>(widened(scale.values[j]));
      result.values[j] = narrowed<T>(
          rows.bias == nullptr ? normal : normal + static_cast<W>(widened(bias.values[j])));
    }
    store_pack(out + at, result);
  });
  if (threadIdx.x != 0) return;
  rows.mean.store(row, static_cast<double>(mean));
  rows.inverse_deviation.store(row, static_cast<double>(inverse));
}

template <int N, typename T>
void launch_rows(const KernelIo& io, std::int64_t count, const Rows<T>& rows) {
  const std::int64_t packs = (rows.extent + N - 1) / N;
  const std::int64_t warps = (packs + 2 * warp_lanes - 1) / (2 * warp_lanes);
  const auto threads = std::min<std::int64_t>(warps * warp_lanes, row_threads);
  launch(stream_of(io),
         {.grid = dim3(static_cast<unsigned>(count)),
          .block = dim3(static_cast<unsigned>(threads)),
          .most_threads = row_threads},
         normalize_rows<T, N>, rows);
}

std::unique_ptr<Kernel> make(const KernelRequest& request, bool centred) {
  if (has_broadcast_scale(request)) return make_broadcast_normalization(request);
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{}, [&]<typename T>(T) {
    const NormalizedRows of(request);
    for (std::size_t i = 1; i < request.inputs.size(); ++i)
      if (request.inputs[i].present() && request.inputs[i].type != request.inputs[0].type)
        fail_type(request, request.inputs[i].type);
    return make_kernel([=](const KernelIo& io) {
      if (of.count == 0 || of.extent == 0) return;
      const auto moments = [&](std::size_t output) {
        return is_given(io.outputs, output) ? AnyFloats(io.outputs[output]) : AnyFloats();
      };
      const Rows<T> rows{io.inputs[0].as<const T>(),
                         io.inputs[1].as<const T>(),
                         optional_data<const T>(io.inputs, 2),
                         io.outputs[0].as<T>(),
                         moments(1),
                         moments(2),
                         of.extent,
                         static_cast<Widened<T>>(of.epsilon),
                         centred};
      // Tensors begin at multiples of 64 bytes, so whole packs need whole rows of them alone.
      if (of.extent % full_pack<T> == 0)
        launch_rows<full_pack<T>>(io, of.count, rows);
      else
        launch_rows<1>(io, of.count, rows);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_layer_normalization(const KernelRequest& request) {
  return make(request, true);
}
std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request) {
  return make(request, false);
}

}  // namespace autopar::runtime::cuda
