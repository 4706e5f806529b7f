// RotaryEmbedding (passes/passes.h): a thread takes some elements of a row's first half and those
// that stand across from them in the second.

#include <algorithm>
#include <iterator>
#include <optional>

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/kernel_arguments.h"
#include "runtime/kernels/strides.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int row_dimensions = 4;

/// The dimensions before the last, and where each row finds its cosines and sines.
struct RowLayout {
  std::int64_t extents[row_dimensions] = {1, 1, 1, 1};
  std::int64_t cos[row_dimensions] = {};
  std::int64_t sin[row_dimensions] = {};
};

template <typename T>
struct Rotation {
  const T* in;
  const T* cos;
  const T* sin;
  T* out;
  std::int64_t rows;
  std::int64_t half;  ///< of a row
  RowLayout layout;
};

/// N divides half a row.
template <typename T, int N>
__global__ void rotate(Rotation<T> rotation) {
  const std::int64_t packs = rotation.half / N;
  const std::int64_t thread = global_thread();
  const std::int64_t row = thread / packs;
  if (row >= rotation.rows) return;
  const std::int64_t column = thread % packs * N;
  std::int64_t cos_at = column;
  std::int64_t sin_at = column;
  std::int64_t rest = row;
#pragma unroll
  for (int d = row_dimensions - 1; d >= 0; --d) {
    const std::int64_t index = rest % rotation.layout.extents[d];
    rest /= rotation.layout.extents[d];
    cos_at += index * rotation.layout.cos[d];
    sin_at += index * rotation.layout.sin[d];
  }
  const std::int64_t half = rotation.half;
  const std::int64_t at = row * 2 * half + column;
  const auto x0 = load_pack<T, N>(rotation.in + at);
  const auto x1 = load_pack<T, N>(rotation.in + at + half);
  const auto cos0 = load_pack<T, N>(rotation.cos + cos_at);
  const auto cos1 = load_pack<T, N>(rotation.cos + cos_at + half);
  const auto sin0 = load_pack<T, N>(rotation.sin + sin_at);
  const auto sin1 = load_pack<T, N>(rotation.sin + sin_at + half);
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
  store_pack(rotation.out + at + half, y1);
}

/// Of rows whose factors the kernel can find; nullopt for other shapes and types.
std::optional<RowLayout> row_layout(std::span<const TensorView> inputs) {
  Shape shape = inputs[0].shape;
  const DataType type = inputs[0].type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) return std::nullopt;
  if (shape.empty() || shape.back() % 2 != 0) return std::nullopt;
  std::vector<std::vector<std::int64_t>> strides{row_major_strides(shape)};
  for (const TensorView& factor : inputs.subspan(1)) {
    strides.push_back(broadcast_strides(factor.shape, shape));
    if (factor.type != type || strides.back().empty() || strides.back().back() != 1)
      return std::nullopt;
  }
  shape.pop_back();
  for (auto& each : strides) each.pop_back();
  merge_dimensions(shape, strides);
  if (shape.size() > row_dimensions) return std::nullopt;
  RowLayout layout;
  std::copy_backward(shape.begin(), shape.end(), std::end(layout.extents));
  std::copy_backward(strides[1].begin(), strides[1].end(), std::end(layout.cos));
  std::copy_backward(strides[2].begin(), strides[2].end(), std::end(layout.sin));
  return layout;
}

template <typename T>
class RotaryEmbedding final : public Kernel {
 public:
  explicit RotaryEmbedding(const KernelRequest& request) {
    const TensorView& x = request.inputs.at(0);
    const auto layout = row_layout(request.inputs);
    if (!layout)
      fail("node '{}': cosines of {} and sines of {} do not rotate {} of {}", request.node.name,
           graph::to_string(request.inputs[1].shape), graph::to_string(request.inputs[2].shape),
           graph::to_string(x.shape), name_of(x.type));
    rotation_.layout = *layout;
    rotation_.half = x.shape.back() / 2;
    rotation_.rows = x.elements() / std::max<std::int64_t>(1, x.shape.back());
  }

  void run(const KernelIo& io) override {
    if (rotation_.rows == 0 || rotation_.half == 0) return;
    Rotation<T> rotation = rotation_;
    rotation.in = io.inputs[0].as<const T>();
    rotation.cos = io.inputs[1].as<const T>();
    rotation.sin = io.inputs[2].as<const T>();
    rotation.out = io.outputs[0].as<T>();
    if (rotation.half % full_pack<T> == 0)
      run_packs<full_pack<T>>(io, rotation);
    else
      run_packs<1>(io, rotation);
  }

 private:
  template <int N>
  static void run_packs(const KernelIo& io, const Rotation<T>& rotation) {
    launch(stream_of(io), a_thread_each(rotation.rows * (rotation.half / N)), rotate<T, N>,
           rotation);
  }

  Rotation<T> rotation_{};
};

}  // namespace

bool serves_rotary_embedding(const graph::Node&, std::span<const TensorView> inputs,
                             std::span<const TensorView>) {
  return row_layout(inputs).has_value();
}

std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{},
                  [&]<typename T>(T) { kernel = std::make_unique<RotaryEmbedding<T>>(request); }))
    fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime::cuda
