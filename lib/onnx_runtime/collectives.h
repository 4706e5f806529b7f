#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "onnx_runtime/member.h"

namespace autopar::onnx_runtime {

/// A contiguous tensor in the host's memory.
struct HostTensor {
  graph::DataType type = graph::DataType::undefined;
  graph::Shape shape;
  std::byte* data = nullptr;
};

/// One run of a collective.
struct Call {
  const graph::Node& node;
  Member& member;
  HostTensor input;  ///< not to be written; none of a Recv
  /// The output, once its shape is known; it may be the input's own memory of an in-place operator.
  std::function<HostTensor(const graph::Shape&)> output;
  std::vector<std::byte>& scratch;  ///< kept from run to run
};

/// An extent that the output has otherwise than the input: of the dimension that attribute `dim`
/// tells, the sum of the shares in attribute `sizes`, or this rank's own.
struct NewExtent {
  const char* dim;
  const char* sizes;
  bool is_sum;
};

/// An operator of domain autopar (graph/onnx/collective_schemas.h).
struct CollectiveOperator {
  const char* op_type;
  std::size_t inputs;
  std::size_t outputs;
  bool is_in_place;
  /// Names with a type behind a colon: i, is, s. `mesh_axes` tells a run nothing.
  std::string_view attributes;
  std::span<const NewExtent> new_extents;
  /// Throws Error naming the node where attributes, tensor and the others' nodes do not fit.
  void (*run)(Call& call);
};
std::span<const CollectiveOperator> collective_operators();

/// The world rank whose shard a node is of. Throws Error where its attributes cannot be.
int world_rank_of(const graph::Node& node);

}  // namespace autopar::onnx_runtime
