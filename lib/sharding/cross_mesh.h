#pragma once

#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

/// Whether every device has elements that no other has: each mesh axis (but those of size 1) splits
/// a dimension. A tensor that crosses from one mesh to another is received in such a spec, so that
/// each element crosses once, over links that may be slow; `connect` then spreads it within the
/// receiving mesh (Alpa's local all-gather). A scalar has no dimension and is received replicated.
bool is_receive_spec(const TensorShardSpec& spec, const DeviceMesh& mesh);
/// Every spec in which a tensor may be received, in the order of enumerate_tensor_shard_specs. One
/// that no axis can split, all of whose extents are 1, is received replicated as a scalar is.
std::vector<TensorShardSpec> receive_specs(const Shape& shape, const DeviceMesh& mesh);

/// One box of a tensor on its way from a rank of one mesh to a rank of another.
struct Message {
  int from = 0;            ///< within its mesh
  int to = 0;              ///< within its mesh
  std::vector<Range> box;  ///< of the global tensor, never empty
};

/// What must be sent so that every rank of the other mesh gets its part: the intersections of the
/// senders' parts with the receivers', each from one of the ranks that have it, the one that sends
/// least so far. By receiver, then by where the box begins.
std::vector<Message> cross_mesh_messages(const TensorShardSpec& from, const DeviceMesh& from_mesh,
                                         const TensorShardSpec& to, const DeviceMesh& to_mesh,
                                         const Shape& shape);

}  // namespace autopar::sharding
