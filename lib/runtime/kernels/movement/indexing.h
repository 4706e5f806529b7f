#pragma once

#include "runtime/kernels/common/kernel_arguments.h"

/// What operators say that look up elements by indices, or replace them, for all devices.
namespace autopar::runtime {

/// Gather: the input's dimensions around the axis, along which the indices name rows.
AxisExtents gathered_extents(const KernelRequest& request);

/// GatherElements and ScatterElements: each index names the element of the data at its own
/// place, but along the axis.
struct ElementIndexing {
  std::size_t axis = 0;
  std::int64_t extent = 0;  ///< of the data along the axis
  Shape strides;            ///< of the data
  Shape shape;              ///< of the indices

  std::int64_t count() const { return graph::num_elements(shape); }
  std::int64_t slice_elements() const { return 1; }
  /// The element of the data that index `i` names; Error naming `node` where it is out of range.
  std::int64_t target(const TensorView& indices, std::int64_t i, const std::string& node) const;
};
ElementIndexing element_indexing(const KernelRequest& request);

/// GatherND and ScatterND: the last dimension of the indices names a slice of the data, or of
/// one batch of it.
struct SliceIndexing {
  Shape extents;  ///< of the dimensions that are indexed
  std::int64_t batches = 1;
  std::int64_t indices = 1;   ///< slices that are named, in each batch
  std::int64_t slices = 1;    ///< in each batch of the data
  std::int64_t elements = 1;  ///< of one slice

  std::int64_t count() const { return batches * indices; }
  std::int64_t slice_elements() const { return elements; }
  /// The slice of the data that index `i` names; Error naming `node` where it is out of range.
  std::int64_t target(const TensorView& named, std::int64_t i, const std::string& node) const;
};
SliceIndexing slice_indexing(const KernelRequest& request);

/// How ScatterElements and ScatterND put updates onto elements.
enum class ScatterReduction { none, add, mul, max, min };
ScatterReduction scatter_reduction(const KernelRequest& request);

/// What a TensorScatter says: a cache is [outer, length, inner], its updates [outer, updates,
/// inner]; the outer dimensions of one batch follow one another and have one write index.
struct CacheUpdate {
  std::int64_t outer = 1;
  std::int64_t outer_of_batch = 1;
  std::int64_t length = 1;
  std::int64_t updates = 1;
  std::int64_t inner_bytes = 1;
  bool circular = false;
  bool has_indices = false;
};
CacheUpdate cache_update(const KernelRequest& request);

}  // namespace autopar::runtime
