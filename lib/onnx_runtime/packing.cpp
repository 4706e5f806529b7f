#include "onnx_runtime/packing.h"

#include <cstring>
#include <utility>

namespace autopar::onnx_runtime {
namespace {

void copy_run(std::byte* in_tensor, std::byte* packed, std::int64_t bytes, Direction direction) {
  if (bytes == 0) return;
  if (direction == Direction::to_tensor) std::swap(in_tensor, packed);
  std::memcpy(packed, in_tensor, static_cast<std::size_t>(bytes));
}

}  // namespace

Blocks::Blocks(std::int64_t element_bytes, const graph::Shape& shape, std::size_t dim,
               std::vector<std::int64_t> sizes)
    : element_bytes_(element_bytes), sizes_(std::move(sizes)) {
  for (std::size_t d = 0; d < dim; ++d) outer_ *= shape[d];
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner_ *= shape[d];
  row_bytes_ = shape[dim] * inner_ * element_bytes_;
}

std::vector<std::int64_t> Blocks::scaled(std::int64_t factor) const {
  std::vector<std::int64_t> result;
  for (const std::int64_t size : sizes_) result.push_back(size * factor);
  return result;
}

void Blocks::copy(std::byte* tensor, std::byte* packed, Direction direction) const {
  std::byte* column = tensor;
  for (const std::int64_t width : scaled(inner_ * element_bytes_)) {
    for (std::int64_t row = 0; row < outer_; ++row) {
      copy_run(column + row * row_bytes_, packed, width, direction);
      packed += width;
    }
    column += width;
  }
}

void copy_box(std::int64_t element_bytes, const graph::Shape& shape,
              std::span<const graph::Range> box, std::byte* tensor, std::byte* packed,
              Direction direction) {
  if (box.empty()) return copy_run(tensor, packed, element_bytes, direction);
  const std::size_t first = shape.size() - box.size();
  std::int64_t stride = element_bytes;  // bytes, in the tensor and in the box
  std::int64_t packed_stride = element_bytes;
  bool is_run = true;  // what is behind the first dimension is whole
  for (std::size_t d = 1; d < box.size(); ++d) {
    stride *= shape[first + d];
    packed_stride *= box[d].size();
    is_run = is_run && box[d].size() == shape[first + d];
  }
  std::byte* const begin = tensor + box[0].begin * stride;
  if (is_run) return copy_run(begin, packed, box[0].size() * stride, direction);
  for (std::int64_t i = 0; i < box[0].size(); ++i)
    copy_box(element_bytes, shape, box.subspan(1), begin + i * stride, packed + i * packed_stride,
             direction);
}

}  // namespace autopar::onnx_runtime
