// The collectives on ONNX Runtime's tensors. A communicator moves contiguous blocks, one a rank;
// where the dimension in question is not the outermost, blocks are packed before or unpacked after.
//
// Ranks at different nodes would take each other's tensors. So a word goes ahead of each
// collective: a digest of the node, which must be one for all.

#include "onnx_runtime/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/file_digest.h"
#include "graph/message_boxes.h"
#include "onnx_runtime/packing.h"

namespace autopar::onnx_runtime {
namespace {

using graph::Node;
using graph::Shape;
using runtime::HostCommunicator;
using runtime::ReduceOp;
using Sizes = std::vector<std::int64_t>;

std::int64_t sum(const Sizes& sizes) {
  return std::reduce(sizes.begin(), sizes.end(), std::int64_t{0});
}

template <typename... Args>
[[noreturn]] void refuse(const Node& node, fmt::format_string<Args...> why, Args&&... args) {
  fail("node '{}': {} {}; partition the model again", node.name, node.op_type,
       fmt::format(why, std::forward<Args>(args)...));
}

std::int64_t element_bytes(const Node& node, graph::DataType type) {
  const int bits = graph::bits_of(type);
  if (bits == 0 || bits % 8 != 0) refuse(node, "has a tensor of {}", name_of(type));
  return bits / 8;
}

std::int64_t bytes_of(const HostTensor& tensor) {
  return graph::bytes_of(tensor.type, graph::num_elements(tensor.shape));
}

std::byte* scratch(Call& call, std::int64_t bytes) {
  if (std::ssize(call.scratch) < bytes) call.scratch.resize(static_cast<std::size_t>(bytes));
  return call.scratch.data();
}

std::uint64_t digest_of(std::string_view text) { return xxh3_of(std::as_bytes(std::span(text))); }

/// The members of a collective.
struct Group {
  Sizes ranks;
  std::size_t place;  ///< this rank's among them
};

Group group_of(const Node& node) {
  Group group{node.ints_attribute("ranks", {}),
              static_cast<std::size_t>(node.int_attribute("rank", -1))};
  if (group.place >= group.ranks.size()) refuse(node, "has a group without this rank");
  return group;
}

/// A dimension that a collective cuts, and the ranks' shares of it.
struct Cut {
  std::size_t dim;
  Sizes sizes;
};

Cut cut_of(const Call& call, const Group& group, const char* dim, const char* sizes) {
  const Cut cut{static_cast<std::size_t>(call.node.int_attribute(dim, -1)),
                call.node.ints_attribute(sizes, {})};
  if (cut.dim >= call.input.shape.size())
    refuse(call.node, "cuts a dimension that its tensor has not");
  if (cut.sizes.size() != group.ranks.size())
    refuse(call.node, "has other shares than its group has ranks");
  return cut;
}

void check_extent(const Call& call, const Cut& cut, std::int64_t expected) {
  const std::int64_t extent = call.input.shape[cut.dim];
  if (extent != expected)
    refuse(call.node, "has shares for an extent of {}, but its tensor has {}", expected, extent);
}

Shape with_extent(Shape shape, const Cut& cut, std::int64_t extent) {
  shape[cut.dim] = extent;
  return shape;
}

/// The communicator, once all members have come to this node. `cuts`: where their tensors differ.
HostCommunicator& meet(Call& call, const Group& group, std::span<const Cut> cuts = {}) {
  Shape common = call.input.shape;
  for (const Cut& cut : cuts) common[cut.dim] = -1;
  std::string text =
      fmt::format("{} {} {} {} {}", call.node.op_type, call.node.name, name_of(call.input.type),
                  fmt::join(common, "x"), call.node.string_attribute("reduce", ""));
  for (const Cut& cut : cuts) text += fmt::format(" {}", fmt::join(cut.sizes, ","));
  const std::vector<int> ranks(group.ranks.begin(), group.ranks.end());
  for (const int rank : ranks)
    if (rank < 0 || rank >= call.member.size()) refuse(call.node, "has a rank {}", rank);
  HostCommunicator& communicator = call.member.group(ranks);
  const std::uint64_t mine = digest_of(text);
  const std::vector<std::uint64_t> all = runtime::gather_all(communicator, mine);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != mine)
      fail(
          "rank {} is at node '{}', but rank {} at another one: give the sessions of all ranks "
          "shards of one bundle and profile",
          call.member.rank(), call.node.name, ranks[i]);
  return communicator;
}

ReduceOp reduce_op(const Node& node) {
  static const std::map<std::string, ReduceOp> by_name = {{"sum", ReduceOp::sum},
                                                          {"max", ReduceOp::max},
                                                          {"min", ReduceOp::min},
                                                          {"mean", ReduceOp::mean}};
  const auto found = by_name.find(node.string_attribute("reduce", ""));
  if (found == by_name.end()) refuse(node, "has a reduction that is none");
  return found->second;
}

void all_reduce(Call& call) {
  HostCommunicator& communicator = meet(call, group_of(call.node));
  const HostTensor output = call.output(call.input.shape);
  communicator.all_reduce(call.input.data, output.data, graph::num_elements(output.shape),
                          output.type, reduce_op(call.node));
}

void broadcast(Call& call) {
  const Group group = group_of(call.node);
  const std::int64_t root = call.node.int_attribute("root", -1);
  if (root < 0 || root >= std::ssize(group.ranks))
    refuse(call.node, "has a root outside its group");
  HostCommunicator& communicator = meet(call, group);
  const HostTensor output = call.output(call.input.shape);
  const std::int64_t bytes = bytes_of(output);
  if (communicator.rank() == root && output.data != call.input.data)
    std::copy_n(call.input.data, bytes, output.data);
  communicator.broadcast(output.data, bytes, static_cast<int>(root));
}

void all_gather(Call& call) {
  const Group group = group_of(call.node);
  const Cut cut = cut_of(call, group, "dim", "sizes");
  check_extent(call, cut, cut.sizes[group.place]);
  HostCommunicator& communicator = meet(call, group, {{cut}});
  const HostTensor output = call.output(with_extent(call.input.shape, cut, sum(cut.sizes)));
  const Blocks blocks(element_bytes(call.node, output.type), output.shape, cut.dim, cut.sizes);
  std::byte* const packed =
      blocks.are_in_tensor() ? output.data : scratch(call, blocks.total_bytes());
  communicator.all_gather(call.input.data, packed, blocks.bytes());
  if (!blocks.are_in_tensor()) blocks.copy(output.data, packed, Direction::to_tensor);
}

/// The input's blocks, where they lie or packed into `room`.
const std::byte* packed_input(const Call& call, const Blocks& blocks, std::byte* room) {
  if (blocks.are_in_tensor()) return call.input.data;
  blocks.copy(call.input.data, room, Direction::from_tensor);
  return room;
}

void reduce_scatter(Call& call) {
  const Group group = group_of(call.node);
  const Cut cut = cut_of(call, group, "dim", "sizes");
  check_extent(call, cut, sum(cut.sizes));
  HostCommunicator& communicator = meet(call, group, {{cut}});
  const HostTensor output = call.output(with_extent(call.input.shape, cut, cut.sizes[group.place]));
  const Blocks blocks(element_bytes(call.node, output.type), call.input.shape, cut.dim, cut.sizes);
  const std::byte* const packed = packed_input(call, blocks, scratch(call, blocks.total_bytes()));
  communicator.reduce_scatter(packed, output.data, blocks.elements(), output.type,
                              reduce_op(call.node));
}

void all_to_all(Call& call) {
  const Group group = group_of(call.node);
  const Cut split = cut_of(call, group, "split_dim", "split_sizes");
  const Cut concat = cut_of(call, group, "concat_dim", "concat_sizes");
  check_extent(call, split, sum(split.sizes));
  check_extent(call, concat, concat.sizes[group.place]);
  HostCommunicator& communicator = meet(call, group, {{split, concat}});
  const Shape share = with_extent(call.input.shape, split, split.sizes[group.place]);
  const HostTensor output = call.output(with_extent(share, concat, sum(concat.sizes)));
  const std::int64_t element = element_bytes(call.node, output.type);
  const Blocks sent(element, call.input.shape, split.dim, split.sizes);
  const Blocks received(element, output.shape, concat.dim, concat.sizes);
  std::byte* const room = scratch(call, sent.total_bytes() + received.total_bytes());
  std::byte* const arrived = received.are_in_tensor() ? output.data : room + sent.total_bytes();
  communicator.all_to_all(packed_input(call, sent, room), sent.bytes(), arrived, received.bytes());
  if (!received.are_in_tensor()) received.copy(output.data, arrived, Direction::to_tensor);
}

/// What the two ends of a message call it: "h/Send" and "h/Recv" are nodes of h.
std::uint64_t message_id(const Node& node) {
  return digest_of(std::string_view(node.name).substr(0, node.name.rfind('/')));
}

/// Calls `move(box, bytes)` for each message of the node, in order.
template <typename Move>
void for_each_message(const Call& call, const HostTensor& tensor, const Move& move) {
  const std::int64_t element = element_bytes(call.node, tensor.type);
  for (const graph::MessageBox& box : graph::message_boxes(call.node, tensor.shape)) {
    if (box.peer < 0 || box.peer >= call.member.size() || box.peer == call.member.rank())
      refuse(call.node, "has a peer {}", box.peer);
    move(box, element, graph::num_elements(box.ranges) * element);
  }
}

void send(Call& call) {
  const HostTensor& tensor = call.input;
  for_each_message(call, tensor, [&](const auto& box, std::int64_t element, std::int64_t bytes) {
    std::byte* const packed = scratch(call, bytes);
    copy_box(element, tensor.shape, box.ranges, tensor.data, packed, Direction::from_tensor);
    call.member.send(box.peer, message_id(call.node), {packed, static_cast<std::size_t>(bytes)});
  });
}

void receive(Call& call) {
  const HostTensor tensor = call.output(call.node.ints_attribute("shape", {}));
  for_each_message(call, tensor, [&](const auto& box, std::int64_t element, std::int64_t bytes) {
    std::byte* const packed = scratch(call, bytes);
    call.member.receive(box.peer, message_id(call.node), {packed, static_cast<std::size_t>(bytes)});
    copy_box(element, tensor.shape, box.ranges, tensor.data, packed, Direction::to_tensor);
  });
}

}  // namespace

int world_rank_of(const Node& node) {
  if (!node.has_attribute("ranks")) return static_cast<int>(node.int_attribute("rank", -1));
  const Group group = group_of(node);
  return static_cast<int>(group.ranks[group.place]);
}

std::span<const CollectiveOperator> collective_operators() {
  static constexpr NewExtent gathered[] = {{"dim", "sizes", true}};
  static constexpr NewExtent scattered[] = {{"dim", "sizes", false}};
  static constexpr NewExtent exchanged[] = {{"split_dim", "split_sizes", false},
                                            {"concat_dim", "concat_sizes", true}};
  static constexpr CollectiveOperator operators[] = {
      {"AllReduce", 1, 1, true, "ranks:is rank:i reduce:s", {}, all_reduce},
      {"AllGather", 1, 1, false, "ranks:is rank:i sizes:is dim:i", gathered, all_gather},
      {"ReduceScatter", 1, 1, false, "ranks:is rank:i sizes:is dim:i reduce:s", scattered,
       reduce_scatter},
      {"AllToAll", 1, 1, false,
       "ranks:is rank:i split_sizes:is concat_sizes:is split_dim:i concat_dim:i", exchanged,
       all_to_all},
      {"Broadcast", 1, 1, true, "ranks:is rank:i root:i", {}, broadcast},
      {"Send", 1, 0, false, "rank:i peers:is starts:is ends:is", {}, send},
      {"Recv", 0, 1, false, "rank:i peers:is starts:is ends:is shape:is", {}, receive},
  };
  return operators;
}

}  // namespace autopar::onnx_runtime
