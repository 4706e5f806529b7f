// Products of any layout and type, by tiles in shared memory: integers, which wrap around, and sums
// over nothing. And the activations that a product's own kernel could not apply.

#include "base/error.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int tile = 16;

struct Shapes : ProductStrides {
  Matrices c;
  std::int64_t row_tiles;
  std::int64_t column_tiles;
  float alpha;
  float beta;
  Activation activation;

  explicit Shapes(const Product& product)
      : ProductStrides(product),
        row_tiles((rows + tile - 1) / tile),
        column_tiles((columns + tile - 1) / tile),
        alpha(product.alpha),
        beta(product.beta),
        activation(product.activation) {
    if (product.c) c = Matrices(*product.c);
  }
};

/// alpha * sum + beta * c; integers by way of double, unless neither scales.
template <typename W>
__device__ __forceinline__ W scaled_sum(W sum, W c, float alpha, float beta) {
  if constexpr (std::floating_point<W>) {
    return static_cast<W>(alpha) * sum + static_cast<W>(beta) * c;
  } else {
    if (alpha == 1 && beta == 1) return functions::Add{}(sum, c);
    return static_cast<W>(alpha * static_cast<double>(sum) + beta * static_cast<double>(c));
  }
}

/// A thread an element of the result, a block a tile.
template <typename T>
__global__ void multiply(const T* a, const T* b, const T* c, T* out, Shapes shapes) {
  __shared__ Widened<T> a_tile[tile][tile];
  __shared__ Widened<T> b_tile[tile][tile + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  std::int64_t rest = blockIdx.x;
  const std::int64_t column = rest % shapes.column_tiles * tile + x;
  rest /= shapes.column_tiles;
  const std::int64_t row = rest % shapes.row_tiles * tile + y;
  rest /= shapes.row_tiles;
  std::int64_t c_offset = row * shapes.c.row + column * shapes.c.column;
  for (int d = shapes.batch_dimensions - 1; d >= 0; --d) {
    const std::int64_t index = rest % shapes.batches[d];
    rest /= shapes.batches[d];
    a += index * shapes.a.batches[d];
    b += index * shapes.b.batches[d];
    out += index * shapes.out.batches[d];
    c_offset += index * shapes.c.batches[d];
  }
  Widened<T> sum{};
  for (std::int64_t k = 0; k < shapes.depth; k += tile) {
    const bool has_a = row < shapes.rows && k + x < shapes.depth;
    const bool has_b = column < shapes.columns && k + y < shapes.depth;
    a_tile[y][x] = has_a ? widened(a[row * shapes.a.row + (k + x) * shapes.a.column]) : 0;
    b_tile[y][x] = has_b ? widened(b[(k + y) * shapes.b.row + column * shapes.b.column]) : 0;
    __syncthreads();
    const int depth = static_cast<int>(shapes.depth - k < tile ? shapes.depth - k : tile);
    for (int i = 0; i < depth; ++i)
      sum = functions::Add{}(sum, functions::Mul{}(a_tile[y][i], b_tile[i][x]));
    __syncthreads();
  }
  if (row >= shapes.rows || column >= shapes.columns) return;
  const Widened<T> added = c == nullptr ? Widened<T>{} : widened(c[c_offset]);
  const Widened<T> scaled = scaled_sum(sum, added, shapes.alpha, shapes.beta);
  out[row * shapes.out.row + column * shapes.out.column] =
      narrowed<T>(activated(scaled, shapes.activation));
}

template <typename T>
class PlainProduct final : public DeviceProduct {
 public:
  explicit PlainProduct(const Product& product)
      : shapes_(product),
        blocks_(shapes_.row_tiles * shapes_.column_tiles * graph::num_elements(product.batches)) {}

  void run(const ProductData& data, std::byte*, cudaStream_t stream) override {
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks_)), dim3(tile, tile)};
    launch(stream, shape, multiply<T>, reinterpret_cast<const T*>(data.a),
           reinterpret_cast<const T*>(data.b), reinterpret_cast<const T*>(data.c),
           reinterpret_cast<T*>(data.out), shapes_);
  }

 private:
  Shapes shapes_;
  std::int64_t blocks_;
};

/// A thread has 16 bytes.
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

std::unique_ptr<DeviceProduct> make_plain_product(const ProductRequest& request) {
  using ProductTypes = Types<float, double, Float16, BFloat16, std::int32_t, std::uint32_t,
                             std::int64_t, std::uint64_t>;
  std::unique_ptr<DeviceProduct> product;
  visit_type(request.type, ProductTypes{}, [&]<typename T>(T) {
    if (request.product.batches.size() > ProductStrides::max_batch_dimensions)
      fail("node '{}': a product over {} batch dimensions has no CUDA kernel", request.node,
           request.product.batches.size());
    product = std::make_unique<PlainProduct<T>>(request.product);
  });
  return product;
}

void activate(Activation activation, DataType type, std::byte* data, std::int64_t elements,
              cudaStream_t stream) {
  if (activation == Activation::none || elements == 0) return;
  const bool is_served = visit_type(type, AllFloats{}, [&]<typename T>(T) {
    const std::int64_t packs = (elements + full_pack<T> - 1) / full_pack<T>;
    launch(stream, a_thread_each(packs), activate_elements<T>, reinterpret_cast<T*>(data), elements,
           activation);
  });
  require(is_served, "an activation is of a floating type");
}

}  // namespace autopar::runtime::cuda
