#include "runtime/kernels/cuda/strided_copy.h"

#include <array>
#include <utility>

#include "graph/error.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/strides.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int max_dimensions = 8;

struct Layouts {
  int dimensions = 0;
  std::int64_t extents[max_dimensions] = {};
  std::int64_t in[max_dimensions] = {};
  std::int64_t out[max_dimensions] = {};
};

template <typename T>
__global__ void copy_elements(const T* in, T* out, Layouts layouts, std::int64_t elements) {
  std::int64_t rest = global_thread();
  if (rest >= elements) return;
  std::int64_t from = 0;
  std::int64_t to = 0;
  for (int d = layouts.dimensions - 1; d >= 0; --d) {
    const std::int64_t index = rest % layouts.extents[d];
    rest /= layouts.extents[d];
    from += index * layouts.in[d];
    to += index * layouts.out[d];
  }
  out[to] = in[from];
}

}  // namespace

CudaStridedCopy::CudaStridedCopy(Shape shape, std::vector<std::int64_t> in_strides,
                                 std::vector<std::int64_t> out_strides, int element_bytes)
    : element_bytes_(element_bytes) {
  std::vector<std::vector<std::int64_t>> strides{std::move(in_strides), std::move(out_strides)};
  merge_dimensions(shape, strides);
  shape_ = std::move(shape);
  in_strides_ = std::move(strides[0]);
  out_strides_ = std::move(strides[1]);
  if (shape_.size() > max_dimensions)
    fail("a copy of {} dimensions has no CUDA kernel", shape_.size());
}

void CudaStridedCopy::run(const std::byte* in, std::byte* out, void* stream) const {
  const std::int64_t elements = graph::num_elements(shape_);
  if (elements == 0) return;
  Layouts layouts;
  layouts.dimensions = static_cast<int>(shape_.size());
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    layouts.extents[d] = shape_[d];
    layouts.in[d] = in_strides_[d];
    layouts.out[d] = out_strides_[d];
  }
  const auto run_as = [&]<typename T>(T) {
    launch(static_cast<cudaStream_t>(stream), a_thread_each(elements), copy_elements<T>,
           reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out), layouts, elements);
  };
  switch (element_bytes_) {
    case 1:
      return run_as(std::uint8_t{});
    case 2:
      return run_as(std::uint16_t{});
    case 4:
      return run_as(std::uint32_t{});
    case 8:
      return run_as(std::uint64_t{});
    default:
      throw InternalError("internal error: elements of 1, 2, 4 or 8 bytes are copied");
  }
}

}  // namespace autopar::runtime::cuda
