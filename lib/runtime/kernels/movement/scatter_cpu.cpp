#include <cstring>
#include <string>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/movement/element_indices.h"
#include "runtime/kernels/movement/indexing.h"
#include "runtime/kernels/movement/kernels.h"

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
Combine combine_for(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::add:
      return combine<functions::Add, T>;
    case ScatterReduction::mul:
      return combine<functions::Mul, T>;
    case ScatterReduction::max:
      return combine<functions::Max, T>;
    case ScatterReduction::min:
      return combine<functions::Min, T>;
    case ScatterReduction::none:
      return replace<T>;
  }
  throw InternalError("internal error: a reduction has a name");
}

Combine replace_for(int element_bytes) {
  if (element_bytes == 1) return replace<std::uint8_t>;
  if (element_bytes == 2) return replace<std::uint16_t>;
  return element_bytes == 4 ? replace<std::uint32_t> : replace<std::uint64_t>;
}

Combine combine_of(const KernelRequest& request) {
  const ScatterReduction reduction = scatter_reduction(request);
  if (reduction == ScatterReduction::none)
    return replace_for(element_bytes_of(request, request.inputs[0]));
  Combine found = nullptr;
  visit_type(request.inputs[0].type, Joined<Numbers, Halves>{},
             [&]<typename T>(T) { found = combine_for<T>(reduction); });
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

class ScatterNdKernel final : public Kernel {
 public:
  explicit ScatterNdKernel(const KernelRequest& request)
      : node_(request.node.name),
        bytes_(element_bytes_of(request, request.inputs.at(0))),
        combine_(combine_of(request)),
        indexing_(slice_indexing(request)) {}

  void run(const KernelIo& io) override {
    copy_data(io);
    const std::int64_t* index = io.inputs[1].as<const std::int64_t>();
    const std::int64_t elements = indexing_.slice_elements;
    for (std::int64_t update = 0; update < indexing_.indices; ++update) {
      std::int64_t slice = 0;
      for (const std::int64_t extent : indexing_.extents)
        slice = slice * extent + checked_index(*index++, extent, node_);
      if (elements == 0) continue;
      combine_(io.outputs[0].data + slice * elements * bytes_,
               io.inputs[2].data + update * elements * bytes_, elements);
    }
  }

 private:
  std::string node_;
  int bytes_;
  Combine combine_;
  SliceIndexing indexing_;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request) {
  return std::make_unique<ScatterElementsKernel>(request);
}
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  return std::make_unique<ScatterNdKernel>(request);
}

}  // namespace autopar::runtime::cpu
