#include "runtime/kernels/common/strides.h"

#include <algorithm>

namespace autopar::runtime {

std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& to) {
  if (shape.size() > to.size()) return {};
  const Shape own = row_major_strides(shape);
  const std::size_t missing = to.size() - shape.size();
  std::vector<std::int64_t> strides(to.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (shape[d] != to[missing + d]) return {};
    strides[missing + d] = own[d];
  }
  return strides;
}

StridedShape::StridedShape(const Shape& stored)
    : dims(stored), strides(row_major_strides(stored)) {}

StridedShape permuted(const Shape& stored, const std::vector<std::int64_t>& permutation) {
  StridedShape result(stored);
  const StridedShape in_place = result;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto d = static_cast<std::size_t>(permutation[i]);
    result.dims.at(i) = in_place.dims.at(d);
    result.strides.at(i) = in_place.strides.at(d);
  }
  return result;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    result.at(static_cast<std::size_t>(permutation[i])) = static_cast<std::int64_t>(i);
  return result;
}

void merge_dimensions(Shape& shape, const std::vector<std::vector<std::int64_t>*>& strides) {
  const auto remove = [&](std::size_t d) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
    for (auto* list : strides) list->erase(list->begin() + static_cast<std::ptrdiff_t>(d));
  };
  for (std::size_t d = shape.size(); d-- > 0;)
    if (shape[d] == 1) remove(d);
  for (std::size_t d = shape.size(); d-- > 1;) {
    const bool together = std::ranges::all_of(
        strides, [&](const auto* list) { return (*list)[d - 1] == (*list)[d] * shape[d]; });
    if (!together) continue;
    shape[d - 1] *= shape[d];
    for (auto* list : strides) (*list)[d - 1] = (*list)[d];
    remove(d);
  }
}

}  // namespace autopar::runtime
