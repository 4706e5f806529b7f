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
};
ElementIndexing element_indexing(const KernelRequest& request);

/// GatherND and ScatterND: the last dimension of the indices names a slice of the data, or of
/// one batch of it.
struct SliceIndexing {
  Shape extents;  ///< of the dimensions that are indexed
  std::int64_t batches = 1;
  std::int64_t indices = 1;         ///< slices that are named, in each batch
  std::int64_t slices = 1;          ///< in each batch of the data
  std::int64_t slice_elements = 1;  ///< of one slice
};
SliceIndexing slice_indexing(const KernelRequest& request);

/// How ScatterElements and ScatterND put updates onto elements.
enum class ScatterReduction { none, add, mul, max, min };
ScatterReduction scatter_reduction(const KernelRequest& request);

}  // namespace autopar::runtime
