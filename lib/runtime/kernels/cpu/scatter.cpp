#include <cstring>
#include <string>

#include "runtime/kernels/cpu/element_indices.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/elementwise_functions.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {
namespace {

/// Puts `n` updates onto as many elements.
using Combine = void (*)(std::byte* elements, const std::byte* updates, std::int64_t n);

template <typename T>
void replace(std::byte* elements, const std::byte* updates, std::int64_t n) {
  std::memcpy(elements, updates, static_cast<std::size_t>(n) * sizeof(T));
}

template <typename Op, typename T>
void combine(std::byte* elements, const std::byte* updates, std::int64_t n) {
  T* to = reinterpret_cast<T*>(elements);
  const T* from = reinterpret_cast<const T*>(updates);
  for (std::int64_t i = 0; i < n; ++i) to[i] = narrowed<T>(Op{}(widened(to[i]), widened(from[i])));
}

template <typename T>
Combine combine_by_name(const std::string& reduction) {
  if (reduction == "add") return combine<functions::Add, T>;
  if (reduction == "mul") return combine<functions::Mul, T>;
  if (reduction == "max") return combine<functions::Max, T>;
  if (reduction == "min") return combine<functions::Min, T>;
  return nullptr;
}

Combine replace_for(int element_bytes) {
  if (element_bytes == 1) return replace<std::uint8_t>;
  if (element_bytes == 2) return replace<std::uint16_t>;
  return element_bytes == 4 ? replace<std::uint32_t> : replace<std::uint64_t>;
}

Combine combine_of(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  const std::string reduction = request.node.string_attribute("reduction", "none");
  if (reduction == "none") return replace_for(element_bytes_of(request, request.inputs[0]));
  Combine found = nullptr;
  visit_type(type, Joined<Numbers, Halves>{},
             [&]<typename T>(T) { found = combine_by_name<T>(reduction); });
  if (found == nullptr)
    fail("node '{}': {} with reduction '{}' on {} has no CPU kernel", request.node.name,
         qualified_op_type(request.node), reduction, name_of(type));
  return found;
}

void copy_data(const KernelIo& io) {
  const auto bytes = static_cast<std::size_t>(io.outputs[0].size_bytes());
  if (bytes > 0) std::memcpy(io.outputs[0].data, io.inputs[0].data, bytes);
}

/// out[i, indices[i, j, k], k] = updates[i, j, k] for axis 1.
class ScatterElementsKernel final : public Kernel {
 public:
  explicit ScatterElementsKernel(const KernelRequest& request)
      : indices_(request),
        bytes_(element_bytes_of(request, request.inputs[0])),
        combine_(combine_of(request)) {}

  void run(const KernelIo& io) override {
    copy_data(io);
    const std::int64_t count = io.inputs[1].elements();
    for (std::int64_t i = 0; i < count; ++i)
      combine_(io.outputs[0].data + indices_.offset(io.inputs[1], i) * bytes_,
               io.inputs[2].data + i * bytes_, 1);
  }

 private:
  ElementIndices indices_;
  int bytes_;
  Combine combine_;
};

/// The last dimension of the indices names the slice that an update goes to.
class ScatterNdKernel final : public Kernel {
 public:
  explicit ScatterNdKernel(const KernelRequest& request)
      : node_(request.node.name),
        bytes_(element_bytes_of(request, request.inputs.at(0))),
        combine_(combine_of(request)) {
    const Shape& data = request.inputs[0].shape;
    const Shape& indices = request.inputs.at(1).shape;
    if (request.inputs[1].type != DataType::int64)
      fail("node '{}': the indices of ScatterND must be int64", node_);
    const auto depth = static_cast<std::size_t>(indices.empty() ? 0 : indices.back());
    if (indices.empty() || depth > data.size())
      fail("node '{}': the indices of ScatterND name more dimensions than the data has", node_);
    extents_.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(depth));
    for (std::size_t d = depth; d < data.size(); ++d) slice_ *= data[d];
    for (std::size_t d = 0; d + 1 < indices.size(); ++d) updates_ *= indices[d];
  }

  void run(const KernelIo& io) override {
    copy_data(io);
    const std::int64_t* index = io.inputs[1].as<const std::int64_t>();
    for (std::int64_t update = 0; update < updates_; ++update) {
      std::int64_t offset = 0;
      for (const std::int64_t extent : extents_)
        offset = offset * extent + checked_index(*index++, extent, node_);
      if (slice_ == 0) continue;
      combine_(io.outputs[0].data + offset * slice_ * bytes_,
               io.inputs[2].data + update * slice_ * bytes_, slice_);
    }
  }

 private:
  std::string node_;
  int bytes_;
  Combine combine_;
  Shape extents_;  ///< of the dimensions that are indexed
  std::int64_t slice_ = 1;
  std::int64_t updates_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request) {
  return std::make_unique<ScatterElementsKernel>(request);
}
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  return std::make_unique<ScatterNdKernel>(request);
}

}  // namespace autopar::runtime::cpu
