#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernel.h"

/// What factories ask of the node they serve. All throw Error naming node and operator.
namespace autopar::runtime {

[[noreturn]] void fail_type(const KernelRequest& request, DataType type);

/// The dimensions before an axis and after it, each as one.
struct AxisExtents {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  std::int64_t rows() const { return outer * inner; }
  /// Offset of a row's first element; the others follow `inner` apart.
  std::int64_t row_offset(std::int64_t row) const {
    return row / inner * extent * inner + row % inner;
  }
};
AxisExtents extents_around(const Shape& shape, std::size_t axis);

/// Bytes of one element; Error for 4-bit types and strings, which no kernel here moves.
int element_bytes_of(const KernelRequest& request, const TensorView& view);

/// `axis` counted from the front, in [0, rank).
std::size_t checked_axis(const KernelRequest& request, std::int64_t axis, std::size_t rank);

/// The integers of a constant input; Error where it is not constant, `otherwise` where left out.
std::vector<std::int64_t> constant_integers(const KernelRequest& request, std::size_t input,
                                            const char* name,
                                            std::vector<std::int64_t> otherwise = {});

/// One integer of an int32 or int64 tensor; other types read as int64 are refused by
/// require_indices.
inline std::int64_t integer_at(const TensorView& view, std::int64_t i) {
  return view.type == DataType::int32 ? view.as<const std::int32_t>()[i]
                                      : view.as<const std::int64_t>()[i];
}

/// Error unless the input holds int32 or int64.
void require_indices(const KernelRequest& request, std::size_t input);

/// An index into `extent` elements, negative ones counted from the end; Error naming `node` where
/// it is out of range.
std::int64_t checked_index(std::int64_t index, std::int64_t extent, const std::string& node);

bool has_output(const KernelRequest& request, std::size_t output);

}  // namespace autopar::runtime
