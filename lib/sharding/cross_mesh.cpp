#include "sharding/cross_mesh.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/message_boxes.h"
#include "sharding/op_shard_spec.h"

namespace autopar::sharding {
namespace {

using Box = std::vector<Range>;

/// nullopt where the boxes have no element in common.
std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const Range range{std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)};
    if (range.begin >= range.end) return std::nullopt;
    common.push_back(range);
  }
  return common;
}

}  // namespace

bool is_receive_spec(const TensorShardSpec& spec, const DeviceMesh& mesh) {
  if (spec.is_partial()) return false;
  if (spec.dims.empty()) return true;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!spec.uses(axis) && mesh.axis_size(axis) > 1) return false;
  }
  return true;
}

std::vector<TensorShardSpec> receive_specs(const Shape& shape, const DeviceMesh& mesh) {
  std::vector<TensorShardSpec> specs = enumerate_tensor_shard_specs(shape, mesh);
  std::erase_if(specs, [&](const TensorShardSpec& spec) { return !is_receive_spec(spec, mesh); });
  if (specs.empty()) specs.push_back(TensorShardSpec::replicated(shape.size()));
  return specs;
}

std::vector<Message> cross_mesh_messages(const TensorShardSpec& from, const DeviceMesh& from_mesh,
                                         const TensorShardSpec& to, const DeviceMesh& to_mesh,
                                         const Shape& shape) {
  const auto ends = [](const Range& range) { return std::pair(range.begin, range.end); };
  const auto is_before = [ends](const Box& a, const Box& b) {
    return std::ranges::lexicographical_compare(a, b, {}, ends, ends);
  };
  std::map<Box, std::vector<int>, decltype(is_before)> senders(is_before);  // by what they have
  for (int rank = 0; rank < from_mesh.num_devices(); ++rank)
    senders[local_ranges(from, shape, from_mesh, rank)].push_back(rank);
  std::vector<std::int64_t> sent(from_mesh.num_devices(), 0);
  const auto load = [&sent](int rank) { return sent[rank]; };
  std::vector<Message> messages;
  for (int receiver = 0; receiver < to_mesh.num_devices(); ++receiver) {
    const Box wanted = local_ranges(to, shape, to_mesh, receiver);
    for (const auto& [box, ranks] : senders) {
      const auto common = intersection(box, wanted);
      if (!common) continue;
      const int sender = *std::ranges::min_element(ranks, {}, load);
      sent[sender] += graph::num_elements(*common);
      messages.push_back({sender, receiver, *common});
    }
  }
  return messages;
}

}  // namespace autopar::sharding
