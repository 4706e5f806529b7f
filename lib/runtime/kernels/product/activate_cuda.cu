// The activations that a product's own kernel could not apply.

#include "base/error.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// A thread 16 bytes.
template <typename T>
__global__ void activate_elements(T* data, std::int64_t elements, Activation activation) {
  constexpr int width = full_pack<T>;
  const auto apply = [activation](T x) { return narrowed<T>(activated(widened(x), activation)); };
  const std::int64_t at = global_thread() * width;
  if (at + width <= elements) {
    auto pack = load_pack<T, width>(data + at);
#pragma unroll
    for (T& each : pack.values) each = apply(each);
    store_pack(data + at, pack);
  } else {
    for (std::int64_t e = at; e < elements; ++e) data[e] = apply(data[e]);
  }
}

}  // namespace

void activate(Activation activation, DataType type, std::byte* data, std::int64_t elements,
              cudaStream_t stream) {
  if (activation == Activation::none || elements == 0) return;
  const bool is_served = visit_type(type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
    const std::int64_t packs = (elements + full_pack<T> - 1) / full_pack<T>;
    launch(stream, a_thread_each(packs), activate_elements<T>, reinterpret_cast<T*>(data), elements,
           activation);
  });
  require(is_served, "an activation is of a floating type");
}

}  // namespace autopar::runtime::cuda
