#include "runtime/kernels/movement/element_lines.h"

#include "base/simd_clones.h"

namespace autopar::runtime::cpu {
namespace {

struct Extremes {
  std::int64_t least = 0;
  std::int64_t most = -1;

  bool are_within(std::int64_t extent) const { return least >= -extent && most < extent; }
};

/// Of indices, and of 0 and -1, which are in range of anything but nothing.
template <typename Index>
[[gnu::always_inline]] inline Extremes find_extremes(const Index* indices, std::int64_t n) {
  Index least = 0;
  Index most = -1;
#pragma omp simd reduction(min : least) reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) {
    least = indices[i] < least ? indices[i] : least;
    most = indices[i] > most ? indices[i] : most;
  }
  return {least, most};
}
AUTOPAR_SIMD_CLONES Extremes extremes(const std::int32_t* indices, std::int64_t n) {
  return find_extremes(indices, n);
}
AUTOPAR_SIMD_CLONES Extremes extremes(const std::int64_t* indices, std::int64_t n) {
  return find_extremes(indices, n);
}

}  // namespace

ElementLines::ElementLines(const ElementIndexing& indexing)
    : along(indexing.shape[indexing.axis]),
      extent(indexing.extent),
      step(indexing.strides[indexing.axis]) {
  const Shape& shape = indexing.shape;
  const auto axis = static_cast<std::ptrdiff_t>(indexing.axis);
  outer_shape.assign(shape.begin(), shape.begin() + axis);
  outer_strides.assign(indexing.strides.begin(), indexing.strides.begin() + axis);
  inner_shape.assign(shape.begin() + axis + 1, shape.end());
  inner_strides.assign(indexing.strides.begin() + axis + 1, indexing.strides.end());
  outer = graph::num_elements(outer_shape);
  inner = graph::num_elements(inner_shape);
  is_inner_whole = inner == step;
}

bool ElementLines::are_in_range(const std::int32_t* indices, std::int64_t n) const {
  return extremes(indices, n).are_within(extent);
}
bool ElementLines::are_in_range(const std::int64_t* indices, std::int64_t n) const {
  return extremes(indices, n).are_within(extent);
}

void ElementLines::check(const TensorView& indices, const std::string& node) const {
  with_integers(indices, [&](const auto* all) {
    if (are_in_range(all, count())) return;
    for (std::int64_t i = 0; i < count(); ++i) checked_index(all[i], extent, node);
  });
}

}  // namespace autopar::runtime::cpu
