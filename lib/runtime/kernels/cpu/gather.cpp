#include <cstring>

#include "runtime/device.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/element_indices.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t parallel_bytes = 128 * 1024;

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t result = 1;
  for (std::size_t d = first; d < last; ++d) result *= shape[d];
  return result;
}

/// Copies row indices[i] of each of the input's outer blocks.
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const KernelRequest& request)
      : node_(request.node.name), threads_(request.device.threads()) {
    const Shape& shape = request.inputs.at(0).shape;
    const std::size_t axis =
        checked_axis(request, request.node.int_attribute("axis", 0), shape.size());
    require_indices(request, 1);
    outer_ = product(shape, 0, axis);
    extent_ = shape[axis];
    row_bytes_ =
        product(shape, axis + 1, shape.size()) * element_bytes_of(request, request.inputs[0]);
  }

  void run(const KernelIo& io) override {
    const TensorView& indices = io.inputs[1];
    const std::int64_t count = indices.elements();
    for (std::int64_t i = 0; i < count; ++i) checked_index(integer_at(indices, i), extent_, node_);
    const std::int64_t rows = outer_ * count;
    const auto bytes = static_cast<std::size_t>(row_bytes_);
    if (rows * row_bytes_ == 0) return;
#pragma omp parallel for num_threads(threads_) \
    schedule(static) if (threads_ > 1 && rows * row_bytes_ >= parallel_bytes)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t index = integer_at(indices, row % count);
      const std::int64_t source = row / count * extent_ + (index < 0 ? index + extent_ : index);
      std::memcpy(io.outputs[0].data + row * row_bytes_, io.inputs[0].data + source * row_bytes_,
                  bytes);
    }
  }

 private:
  std::string node_;
  int threads_;
  std::int64_t outer_ = 1;
  std::int64_t extent_ = 0;
  std::int64_t row_bytes_ = 0;
};

/// out[i, j, k] = data[i, indices[i, j, k], k] for axis 1.
class GatherElementsKernel final : public Kernel {
 public:
  explicit GatherElementsKernel(const KernelRequest& request)
      : indices_(request), bytes_(element_bytes_of(request, request.inputs[0])) {}

  void run(const KernelIo& io) override {
    const std::int64_t count = io.inputs[1].elements();
    for (std::int64_t i = 0; i < count; ++i)
      fill(io.outputs[0].data + i * bytes_,
           io.inputs[0].data + indices_.offset(io.inputs[1], i) * bytes_, 1, bytes_);
  }

 private:
  ElementIndices indices_;
  int bytes_;
};

/// The last dimension of the indices names a slice of the data (of one batch of it).
class GatherNdKernel final : public Kernel {
 public:
  explicit GatherNdKernel(const KernelRequest& request) : node_(request.node.name) {
    const Shape& data = request.inputs.at(0).shape;
    const Shape& indices = request.inputs.at(1).shape;
    if (request.inputs[1].type != DataType::int64)
      fail("node '{}': the indices of GatherND must be int64", node_);
    const auto batch_dims = static_cast<std::size_t>(request.node.int_attribute("batch_dims", 0));
    depth_ = indices.empty() ? 0 : indices.back();
    const std::size_t first_kept = batch_dims + static_cast<std::size_t>(depth_);
    if (indices.empty() || batch_dims >= indices.size() || first_kept > data.size())
      fail("node '{}': the indices of GatherND name more dimensions than the data has", node_);
    const int bytes = element_bytes_of(request, request.inputs[0]);
    batches_ = product(data, 0, batch_dims);
    batch_bytes_ = product(data, batch_dims, data.size()) * bytes;
    slice_bytes_ = product(data, first_kept, data.size()) * bytes;
    slices_ = product(indices, batch_dims, indices.size() - 1);
    for (std::size_t d = batch_dims; d < first_kept; ++d) extents_.push_back(data[d]);
  }

  void run(const KernelIo& io) override {
    const std::int64_t* index = io.inputs[1].as<const std::int64_t>();
    std::byte* out = io.outputs[0].data;
    for (std::int64_t batch = 0; batch < batches_; ++batch)
      for (std::int64_t slice = 0; slice < slices_; ++slice) {
        std::int64_t offset = 0;
        for (const std::int64_t extent : extents_)
          offset = offset * extent + checked_index(*index++, extent, node_);
        if (slice_bytes_ == 0) continue;
        std::memcpy(out, io.inputs[0].data + batch * batch_bytes_ + offset * slice_bytes_,
                    static_cast<std::size_t>(slice_bytes_));
        out += slice_bytes_;
      }
  }

 private:
  std::string node_;
  std::int64_t depth_ = 0;
  std::int64_t batches_ = 1;
  std::int64_t batch_bytes_ = 0;
  std::int64_t slice_bytes_ = 0;
  std::int64_t slices_ = 1;
  Shape extents_;  ///< of the dimensions that are indexed
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelRequest& request) {
  return std::make_unique<GatherKernel>(request);
}
std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request) {
  return std::make_unique<GatherElementsKernel>(request);
}
std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request) {
  return std::make_unique<GatherNdKernel>(request);
}

}  // namespace autopar::runtime::cpu
