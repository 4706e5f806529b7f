#include <cstring>
#include <string>

#include "runtime/kernels/elementwise/functions.h"
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
      break;
  }
  return replace<T>;
}

Combine combine_of(const KernelRequest& request) {
  const ScatterReduction reduction = scatter_reduction(request);
  Combine found = nullptr;
  if (reduction == ScatterReduction::none)
    visit_size(element_bytes_of(request, request.inputs[0]), Words{},
               [&]<typename Word>(Word) { found = replace<Word>; });
  else
    visit_type(request.inputs[0].type, AllNumbers{},
               [&]<typename T>(T) { found = combine_for<T>(reduction); });
  return found;
}

/// ScatterElements and ScatterND: updates put onto the elements or slices that indices name.
template <typename Indexing>
class SliceScatter final : public Kernel {
 public:
  SliceScatter(const KernelRequest& request, Indexing indexing)
      : node_(request.node.name),
        indexing_(std::move(indexing)),
        bytes_(indexing_.slice_elements() * element_bytes_of(request, request.inputs[0])),
        combine_(combine_of(request)) {}

  void run(const KernelIo& io) override {
    std::byte* const out = io.outputs[0].data;
    const auto all_bytes = static_cast<std::size_t>(io.outputs[0].size_bytes());
    if (all_bytes > 0) std::memcpy(out, io.inputs[0].data, all_bytes);
    for (std::int64_t i = 0; i < indexing_.count(); ++i) {
      const std::int64_t target = indexing_.target(io.inputs[1], i, node_);
      if (bytes_ > 0)
        combine_(out + target * bytes_, io.inputs[2].data + i * bytes_, indexing_.slice_elements());
    }
  }

 private:
  std::string node_;
  Indexing indexing_;
  std::int64_t bytes_;  ///< of a slice
  Combine combine_;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request) {
  return std::make_unique<SliceScatter<ElementIndexing>>(request, element_indexing(request));
}
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  return std::make_unique<SliceScatter<SliceIndexing>>(request, slice_indexing(request));
}

}  // namespace autopar::runtime::cpu
