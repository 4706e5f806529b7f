#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// Elements of a box, a range a dimension.
std::int64_t num_elements(std::span<const Range> box);

/// One message of a Send or Recv (graph/onnx/collective_schemas.h): what of the local tensor goes
/// to the peer, or comes from it.
struct MessageBox {
  int peer = 0;               ///< world rank
  std::vector<Range> ranges;  ///< a range a dimension
};

/// The messages of a Send or Recv of a tensor of this shape, in order. Throws Error naming the node
/// where its attributes do not fit the shape or, of a Recv, boxes overlap or do not cover it.
std::vector<MessageBox> message_boxes(const Node& node, const Shape& shape);

}  // namespace autopar::graph
