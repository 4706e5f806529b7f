#include "runtime/kernels/quantized/packed_bytes_cuda.h"

#include "graph/arena.h"

namespace autopar::runtime::cuda {
namespace {

std::int64_t vectors_bytes(std::int64_t count, std::int64_t depth) {
  return graph::aligned(count * depth);
}
std::int64_t operand_bytes(std::int64_t count, std::int64_t depth) {
  return vectors_bytes(count, depth) + graph::aligned(count * 4);
}

}  // namespace

PackedProducts::PackedProducts(const KernelRequest& request, std::int64_t rows,
                               std::int64_t columns, std::int64_t depth)
    : rows_(padded(rows)),
      columns_(padded(columns)),
      depth_(padded(depth)),
      columns_at_(operand_bytes(rows_, depth_)),
      products_at_(columns_at_ + operand_bytes(columns_, depth_)),
      library_at_(products_at_ + graph::aligned(rows_ * columns_ * 4)),
      library_(
          make_cublas_product({.device = device_of(request),
                               .node = request.node.name,
                               .type = DataType::int8,
                               .product = product_of_vectors(rows_, depth_, columns_, columns_)})) {
}

PackTarget PackedProducts::target(std::byte* scratch, std::int64_t offset,
                                  std::int64_t count) const {
  std::byte* const vectors = scratch + offset;
  std::byte* const sums = vectors + vectors_bytes(count, depth_);
  return {reinterpret_cast<std::uint32_t*>(vectors), reinterpret_cast<std::int32_t*>(sums), count,
          depth_};
}

const std::int32_t* PackedProducts::multiply(std::byte* scratch, cudaStream_t stream) const {
  std::byte* const products = scratch + products_at_;
  library_->run({.a = scratch, .b = scratch + columns_at_, .out = products}, scratch + library_at_,
                stream);
  return reinterpret_cast<const std::int32_t*>(products);
}

}  // namespace autopar::runtime::cuda
