#include "graph/message_boxes.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::graph {
namespace {

bool overlap(const MessageBox& a, const MessageBox& b) {
  for (std::size_t d = 0; d < a.ranges.size(); ++d) {
    if (std::max(a.ranges[d].begin, b.ranges[d].begin) >=
        std::min(a.ranges[d].end, b.ranges[d].end))
      return false;
  }
  return true;
}

/// Disjoint boxes cover a tensor where they have as many elements.
bool are_a_cover(const std::vector<MessageBox>& boxes, const Shape& shape) {
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    elements += num_elements(boxes[i].ranges);
    if (num_elements(boxes[i].ranges) == 0) continue;
    for (std::size_t j = 0; j < i; ++j)
      if (num_elements(boxes[j].ranges) > 0 && overlap(boxes[i], boxes[j])) return false;
  }
  return elements == num_elements(shape);
}

}  // namespace

std::int64_t num_elements(std::span<const Range> box) {
  std::int64_t elements = 1;
  for (const Range& range : box) elements *= range.size();
  return elements;
}

std::vector<MessageBox> message_boxes(const Node& node, const Shape& shape) {
  const std::vector<std::int64_t> peers = node.ints_attribute("peers", {});
  const std::vector<std::int64_t> starts = node.ints_attribute("starts", {});
  const std::vector<std::int64_t> ends = node.ints_attribute("ends", {});
  const auto refuse = [&](const char* why) {
    fail("node '{}': {} {}; partition the model again", node.name, node.op_type, why);
  };
  const std::size_t rank = shape.size();
  if (starts.size() != peers.size() * rank || ends.size() != peers.size() * rank)
    refuse("has 'starts' or 'ends' that do not fit 'peers' and the tensor");
  std::vector<MessageBox> boxes;
  for (std::size_t m = 0; m < peers.size(); ++m) {
    MessageBox& box = boxes.emplace_back();
    box.peer = static_cast<int>(peers[m]);
    for (std::size_t d = 0; d < rank; ++d) {
      const Range range{starts[m * rank + d], ends[m * rank + d]};
      if (range.begin < 0 || range.begin > range.end || range.end > shape[d])
        refuse("has a message outside of its tensor");
      box.ranges.push_back(range);
    }
  }
  if (node.op_type == "Recv" && !are_a_cover(boxes, shape))
    refuse("has messages that overlap or leave out a part of its tensor");
  return boxes;
}

}  // namespace autopar::graph
