#include "runtime/kernels/cuda/targets.h"

#include <algorithm>

#include "runtime/kernels/common/strides.h"

namespace autopar::runtime::cuda {
namespace {

/// What is never divided by may be 0.
FastDivisor divisor_of(std::int64_t count) { return FastDivisor(std::max<std::int64_t>(count, 1)); }

[[noreturn]] void fail_dimensions(const KernelRequest& request) {
  fail("node '{}': {} with indices into more than {} dimensions has no CUDA kernel",
       request.node.name, qualified_op_type(request.node), WordLayout::max_dimensions);
}

}  // namespace

RowTargets::RowTargets(const KernelRequest& request, const AxisExtents& extents)
    : indices_(divisor_of(request.inputs[1].elements())),
      extent_(extents.extent),
      fault_(device_of(request).faults().slot(request.node.name)) {}

ElementTargets::ElementTargets(const KernelRequest& request)
    : fault_(device_of(request).faults().slot(request.node.name)) {
  const ElementIndexing indexing = element_indexing(request);
  extent_ = indexing.extent;
  stride_ = indexing.strides[indexing.axis];
  Shape shape = indexing.shape;
  Shape strides = indexing.strides;
  strides[indexing.axis] = 0;
  checked_count(request, graph::num_elements(shape));
  if (graph::num_elements(shape) == 0) return;
  merge_dimensions(shape, {&strides});
  if (shape.size() > WordLayout::max_dimensions) fail_dimensions(request);
  for (std::size_t d = shape.size(); d-- > 0;) places_.add(shape[d], strides[d], 0);
}

SliceTargets::SliceTargets(const KernelRequest& request)
    : fault_(device_of(request).faults().slot(request.node.name)) {
  const SliceIndexing indexing = slice_indexing(request);
  checked_count(request, indexing.batches * indexing.indices);
  if (indexing.extents.size() > max_depth) fail_dimensions(request);
  depth_ = static_cast<int>(indexing.extents.size());
  std::ranges::copy(indexing.extents, extents_);
  indices_ = divisor_of(indexing.indices);
  slices_ = indexing.slices;
}

}  // namespace autopar::runtime::cuda
