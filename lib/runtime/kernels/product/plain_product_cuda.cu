// Products of any layout and type, by tiles in shared memory: integers, which wrap around, and sums
// over nothing.

#include <algorithm>

#include "base/error.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int max_batch_dimensions = 8;
constexpr int tile = 16;

struct DeviceLayout {
  std::int64_t batch_strides[max_batch_dimensions] = {};
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  DeviceLayout() = default;
  explicit DeviceLayout(const MatrixLayout& layout)
      : row_stride(layout.row_stride), column_stride(layout.column_stride) {
    std::ranges::copy(layout.batch_strides, batch_strides);
  }
};

struct Shapes {
  int batch_dimensions = 0;
  std::int64_t batches[max_batch_dimensions] = {};
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t row_tiles = 0;
  std::int64_t column_tiles = 0;
  DeviceLayout a, b, c, out;
  float alpha = 1;
  float beta = 1;
  Activation activation = Activation::none;
};

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
  std::int64_t c_offset = row * shapes.c.row_stride + column * shapes.c.column_stride;
  for (int d = shapes.batch_dimensions - 1; d >= 0; --d) {
    const std::int64_t index = rest % shapes.batches[d];
    rest /= shapes.batches[d];
    a += index * shapes.a.batch_strides[d];
    b += index * shapes.b.batch_strides[d];
    out += index * shapes.out.batch_strides[d];
    c_offset += index * shapes.c.batch_strides[d];
  }
  Widened<T> sum{};
  for (std::int64_t k = 0; k < shapes.depth; k += tile) {
    const bool has_a = row < shapes.rows && k + x < shapes.depth;
    const bool has_b = column < shapes.columns && k + y < shapes.depth;
    a_tile[y][x] =
        has_a ? widened(a[row * shapes.a.row_stride + (k + x) * shapes.a.column_stride]) : 0;
    b_tile[y][x] =
        has_b ? widened(b[(k + y) * shapes.b.row_stride + column * shapes.b.column_stride]) : 0;
    __syncthreads();
    const int depth = static_cast<int>(shapes.depth - k < tile ? shapes.depth - k : tile);
    for (int i = 0; i < depth; ++i)
      sum = functions::Add{}(sum, functions::Mul{}(a_tile[y][i], b_tile[i][x]));
    __syncthreads();
  }
  if (row >= shapes.rows || column >= shapes.columns) return;
  const Widened<T> added = c == nullptr ? Widened<T>{} : widened(c[c_offset]);
  const Widened<T> scaled = scaled_sum(sum, added, shapes.alpha, shapes.beta);
  out[row * shapes.out.row_stride + column * shapes.out.column_stride] =
      narrowed<T>(activated(scaled, shapes.activation));
}

template <typename T>
class PlainProduct final : public DeviceProduct {
 public:
  explicit PlainProduct(const ProductRequest& request) {
    const Product& product = request.product;
    if (product.batches.size() > max_batch_dimensions)
      fail("node '{}': a product over {} batch dimensions has no CUDA kernel", request.node,
           product.batches.size());
    shapes_.batch_dimensions = static_cast<int>(product.batches.size());
    std::ranges::copy(product.batches, shapes_.batches);
    shapes_.rows = product.rows;
    shapes_.depth = product.depth;
    shapes_.columns = product.columns;
    shapes_.row_tiles = (product.rows + tile - 1) / tile;
    shapes_.column_tiles = (product.columns + tile - 1) / tile;
    shapes_.a = DeviceLayout(product.a);
    shapes_.b = DeviceLayout(product.b);
    shapes_.out = DeviceLayout(product.out);
    if (product.c) shapes_.c = DeviceLayout(*product.c);
    shapes_.alpha = product.alpha;
    shapes_.beta = product.beta;
    shapes_.activation = product.activation;
    blocks_ = shapes_.row_tiles * shapes_.column_tiles * graph::num_elements(product.batches);
  }

  void run(const ProductData& data, std::byte*, cudaStream_t stream) override {
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks_)), dim3(tile, tile)};
    launch(stream, shape, multiply<T>, reinterpret_cast<const T*>(data.a),
           reinterpret_cast<const T*>(data.b), reinterpret_cast<const T*>(data.c),
           reinterpret_cast<T*>(data.out), shapes_);
  }

 private:
  Shapes shapes_;
  std::int64_t blocks_ = 0;
};

}  // namespace

std::unique_ptr<DeviceProduct> make_plain_product(const ProductRequest& request) {
  using ProductTypes = Types<float, double, Float16, BFloat16, std::int32_t, std::uint32_t,
                             std::int64_t, std::uint64_t>;
  std::unique_ptr<DeviceProduct> product;
  visit_type(request.type, ProductTypes{},
             [&]<typename T>(T) { product = std::make_unique<PlainProduct<T>>(request); });
  return product;
}

}  // namespace autopar::runtime::cuda
