// RotaryEmbedding, ONNX's and the compiler's: a thread turns some pairs of a row that follow one
// another, or copies an element that is not turned.

#include "runtime/kernels/attention/rotary_embedding.h"

#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/vector_access.h"

namespace autopar::runtime::cuda {
namespace {

template <typename T>
struct Rotation {
  const T* in;
  const T* cos;
  const T* sin;
  T* out;
  const std::int64_t* positions;
  RotaryProblem of;
};

/// N divides the pairs of a row; where it is more than one, they follow one another.
template <typename T, int N>
__global__ void rotate(const __grid_constant__ Rotation<T> rotation) {
  const RotaryProblem& of = rotation.of;
  const std::int64_t packs = of.pairs / N;
  const std::int64_t kept = of.row_elements - 2 * of.pairs;
  const std::int64_t thread = global_thread();
  const std::int64_t row = thread / (packs + kept);
  if (row >= of.rows) return;
  const std::int64_t place = thread % (packs + kept);
  if (place >= packs) {
    const std::int64_t at = row * of.row_elements + 2 * of.pairs + place - packs;
    rotation.out[at] = rotation.in[at];
    return;
  }
  const std::int64_t pair = place * N;
  const RotaryProblem::RowPlaces places = of.places_of(row);
  std::int64_t cos_at = pair + places.cos;
  std::int64_t sin_at = pair + places.sin;
  if (rotation.positions != nullptr) {
    // What is outside of the tables cannot be told from here: it takes their nearest row.
    std::int64_t table_row = rotation.positions[places.position];
    table_row = table_row < 0 ? 0 : (table_row < of.table_rows ? table_row : of.table_rows - 1);
    cos_at += table_row * of.pairs;
    sin_at += table_row * of.pairs;
  }
  const std::int64_t at = row * of.row_elements + pair * of.pair_stride;
  const auto x0 = load_pack<T, N>(rotation.in + at);
  const auto x1 = load_pack<T, N>(rotation.in + at + of.within_pair);
  const auto cos0 = load_pack<T, N>(rotation.cos + cos_at);
  const auto cos1 = load_pack<T, N>(rotation.cos + cos_at + of.second_factor);
  const auto sin0 = load_pack<T, N>(rotation.sin + sin_at);
  const auto sin1 = load_pack<T, N>(rotation.sin + sin_at + of.second_factor);
  Pack<T, N> y0;
  Pack<T, N> y1;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const auto a = widened(x0.values[i]);
    const auto b = widened(x1.values[i]);
    y0.values[i] = narrowed<T>(a * widened(cos0.values[i]) - b * widened(sin0.values[i]));
    y1.values[i] = narrowed<T>(b * widened(cos1.values[i]) + a * widened(sin1.values[i]));
  }
  store_pack(rotation.out + at, y0);
  store_pack(rotation.out + at + of.within_pair, y1);
}

template <int N, typename T>
void launch_rotation(const Rotation<T>& rotation, cudaStream_t stream) {
  const RotaryProblem& of = rotation.of;
  const std::int64_t threads = of.rows * (of.pairs / N + of.row_elements - 2 * of.pairs);
  launch(stream, a_thread_each(threads), rotate<T, N>, rotation);
}

}  // namespace

std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{}, [&]<typename T>(T) {
    return make_kernel([of = rotary_problem(request)](const KernelIo& io) {
      if (of.rows * of.row_elements == 0) return;
      const Rotation<T> rotation{io.inputs[0].as<const T>(),
                                 io.inputs[1].as<const T>(),
                                 io.inputs[2].as<const T>(),
                                 io.outputs[0].as<T>(),
                                 of.has_positions ? io.inputs[3].as<const std::int64_t>() : nullptr,
                                 of};
      const bool has_packs = of.pair_stride == 1 && of.pairs % full_pack<T> == 0 &&
                             of.row_elements % full_pack<T> == 0;
      if (has_packs)
        launch_rotation<full_pack<T>>(rotation, stream_of(io));
      else
        launch_rotation<1>(rotation, stream_of(io));
    });
  });
}

}  // namespace autopar::runtime::cuda
