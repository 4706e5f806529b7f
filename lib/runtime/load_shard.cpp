#include "runtime/load_shard.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/message_boxes.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::runtime {
namespace {

using graph::Graph;

/// A message between stages, from one rank's side.
struct MessageSize {
  int peer = 0;
  std::int64_t bytes = 0;
  std::string value;
};

/// Throws Error where a shard does not send and receive what meta-info says: its stages would wait
/// for each other.
void check_messages(const bundle::ProfileInfo& profile, const Graph& shard, int rank, bool sends) {
  std::vector<MessageSize> planned;
  for (const bundle::TransferInfo& transfer : profile.transfers)
    for (const auto& [from, to, bytes] : transfer.messages)
      if ((sends ? from : to) == rank)
        planned.push_back({sends ? to : from, bytes, transfer.value});
  std::vector<MessageSize> found;
  for (const graph::Node& node : shard.nodes) {
    if (node.domain != graph::collective_domain || node.op_type != (sends ? "Send" : "Recv"))
      continue;
    const graph::Value& value = shard.value(sends ? node.inputs[0] : node.outputs[0]);
    for (const graph::MessageBox& box : graph::message_boxes(node, value.shape)) {
      const std::int64_t elements = graph::num_elements(box.ranges);
      found.push_back({box.peer, graph::bytes_of(value.type, elements), value.name});
    }
  }
  const auto order = [](const MessageSize& m) { return std::pair(m.peer, m.bytes); };
  std::ranges::stable_sort(planned, {}, order);
  std::ranges::stable_sort(found, {}, order);
  std::vector<MessageSize> missing;
  std::vector<MessageSize> superfluous;
  std::ranges::set_difference(planned, found, std::back_inserter(missing), {}, order, order);
  std::ranges::set_difference(found, planned, std::back_inserter(superfluous), {}, order, order);
  const auto refuse = [&](const MessageSize& message, const char* by, const char* but) {
    fail("rank {}: {} it {} {} bytes of '{}' {} rank {}, but not {}; partition the model again",
         rank, by, sends ? "sends" : "receives", message.bytes, message.value,
         sends ? "to" : "from", message.peer, but);
  };
  if (!missing.empty()) refuse(missing.front(), "by meta-info.json", "by its shard");
  if (!superfluous.empty()) refuse(superfluous.front(), "by its shard", "by meta-info.json");
}

std::size_t place_of(const Graph& shard, const std::vector<graph::ValueId>& ports,
                     const std::string& name) {
  const auto found =
      std::ranges::find_if(ports, [&](graph::ValueId id) { return shard.value(id).name == name; });
  if (found == ports.end())
    fail(
        "a shard has no '{}', which meta-info.json counts among its states; partition the model "
        "again",
        name);
  return static_cast<std::size_t>(found - ports.begin());
}

/// Whether the rank's stage has it; or else none of its ends.
bool has_state(const bundle::ProfileInfo& profile, const bundle::StateInfo& state, int rank) {
  const auto has = [&](const std::vector<bundle::PortInfo>& ports, const std::string& name) {
    const auto port = std::ranges::find(ports, name, &bundle::PortInfo::name);
    return port == ports.end() || port->ranges[static_cast<std::size_t>(rank)].has_value();
  };
  return has(profile.outputs, state.output) || has(profile.inputs, state.input);
}

}  // namespace

Graph load_shard(const bundle::MetaInfo& info, std::size_t profile,
                 const std::filesystem::path& dir, int rank) {
  const bundle::ProfileInfo& of_profile = info.profiles[profile];
  const bundle::RankInfo& of_rank = info.ranks[static_cast<std::size_t>(rank)];
  graph::ImportOptions as_it_is;
  as_it_is.unrolls = false;
  Graph shard = graph::load_onnx(dir / of_rank.files[profile].name, as_it_is);
  for (const bool sends : {false, true}) check_messages(of_profile, shard, rank, sends);
  const auto count = [&](const std::vector<bundle::PortInfo>& ports) {
    return std::ranges::count_if(ports, [&](const bundle::PortInfo& port) {
      return port.ranges[static_cast<std::size_t>(rank)].has_value();
    });
  };
  if (std::ssize(shard.outputs) != count(of_profile.outputs))
    fail("rank {}: its shard has {} outputs, but meta-info.json {}; partition the model again",
         rank, shard.outputs.size(), count(of_profile.outputs));
  for (const graph::ValueId id : shard.inputs) {
    const auto port =
        std::ranges::find(of_profile.inputs, shard.value(id).name, &bundle::PortInfo::name);
    if (port == of_profile.inputs.end() || !port->ranges[static_cast<std::size_t>(rank)])
      fail(
          "rank {}: its shard has an input '{}', but meta-info.json none; partition the model "
          "again",
          rank, shard.value(id).name);
  }
  for (const bundle::StateInfo& state : info.states)
    if (has_state(of_profile, state, rank))
      shard.states.push_back({place_of(shard, shard.outputs, state.output),
                              place_of(shard, shard.inputs, state.input)});
  return shard;
}

}  // namespace autopar::runtime
