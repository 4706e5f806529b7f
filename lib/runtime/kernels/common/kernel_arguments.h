#pragma once

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"

/// What factories ask of the node they serve. All throw Error naming node and operator.
namespace autopar::runtime {

[[noreturn]] void fail_type(const KernelRequest& request, DataType type);

/// Error unless `type` is one of the list.
template <typename List>
void require_type(const KernelRequest& request, DataType type, List list) {
  if (!is_among(type, list)) fail_type(request, type);
}

/// The kernel that `make(T{})` makes for the type of the list that `type` names; Error where it is
/// not there.
template <typename List, typename Make>
std::unique_ptr<Kernel> kernel_for_type(const KernelRequest& request, DataType type, List list,
                                        Make make) {
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(type, list, [&](auto element) { kernel = make(element); }))
    fail_type(request, type);
  return kernel;
}

/// Makes an output without elements, as a rank has it whose share is empty.
class NoWork final : public Kernel {
 public:
  void run(const KernelIo&) override {}
};

/// Whether a node has this input or output, which may be left out.
inline bool is_given(std::span<const TensorView> views, std::size_t i) {
  return i < views.size() && views[i].present();
}
/// Its elements; null where it is left out.
template <typename T>
T* optional_data(std::span<const TensorView> views, std::size_t i) {
  return is_given(views, i) ? views[i].as<T>() : nullptr;
}

/// The dimensions before an axis and after it, each as one.
struct AxisExtents {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  AUTOPAR_ELEMENTWISE std::int64_t rows() const { return outer * inner; }
  /// The first element of a row in a tensor of `elements` along the axis; the others follow `inner`
  /// apart.
  AUTOPAR_ELEMENTWISE std::int64_t row_offset(std::int64_t row, std::int64_t elements) const {
    return row / inner * elements * inner + row % inner;
  }
  AUTOPAR_ELEMENTWISE std::int64_t row_offset(std::int64_t row) const {
    return row_offset(row, extent);
  }
};
AxisExtents extents_around(const Shape& shape, std::size_t axis);
/// Around the axis that the node's attribute `axis` names, in a tensor of `shape`.
AxisExtents extents_around_axis(const KernelRequest& request, const Shape& shape,
                                std::int64_t default_axis);

/// Bytes of one element; Error for 4-bit types and strings, which no kernel here moves.
int element_bytes_of(const KernelRequest& request, const TensorView& view);

/// The kernel that `make(Word{})` makes for the word of a tensor's elements.
template <typename Make>
std::unique_ptr<Kernel> kernel_for_element(const KernelRequest& request, const TensorView& view,
                                           Make make) {
  std::unique_ptr<Kernel> kernel;
  visit_size(element_bytes_of(request, view), Words{}, [&](auto word) { kernel = make(word); });
  return kernel;
}

/// `axis` counted from the front, in [0, rank).
std::size_t checked_axis(const KernelRequest& request, std::int64_t axis, std::size_t rank);

/// The integers of a constant input; Error where it is not constant, `otherwise` where left out.
std::vector<std::int64_t> constant_integers(const KernelRequest& request, std::size_t input,
                                            const char* name,
                                            std::vector<std::int64_t> otherwise = {});

/// The value that a string attribute of the node names; Error where it names none.
template <typename Value>
Value named_attribute(const KernelRequest& request, const char* attribute, const char* otherwise,
                      std::initializer_list<std::pair<std::string_view, Value>> values) {
  const std::string name = request.node.string_attribute(attribute, otherwise);
  for (const auto& [known, value] : values)
    if (known == name) return value;
  fail("node '{}': {} has no {} '{}'", request.node.name, request.node.op_type, attribute, name);
}

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

/// A KernelOf<T> for the type of the list that `type` names; Error where it is not there.
template <template <typename> typename KernelOf, typename List>
std::unique_ptr<Kernel> kernel_for_type(const KernelRequest& request, DataType type, List list) {
  return kernel_for_type(request, type, list,
                         [&]<typename T>(T) { return std::make_unique<KernelOf<T>>(request); });
}

}  // namespace autopar::runtime
