#include "runtime/load_shard.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/message_boxes.h"
#include "graph/onnx/onnx_import.h"
#include "graph/runtimes/attention_masks.h"
#include "runtime/check_collectives.h"

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

/// A rank's part of a port.
graph::Shape local_shape(const std::vector<graph::Range>& ranges) {
  graph::Shape shape;
  for (const graph::Range& range : ranges) shape.push_back(range.size());
  return shape;
}

/// Throws Error where a shard's inputs and outputs are not what meta-info says that the rank has of
/// the model's: data would be written and read beyond their places. Outputs have its order.
void check_ports(const bundle::ProfileInfo& profile, const Graph& shard, int rank) {
  const auto of_rank = [&](const std::vector<bundle::PortInfo>& ports) {
    std::vector<const bundle::PortInfo*> own;
    for (const bundle::PortInfo& port : ports)
      if (port.ranges[static_cast<std::size_t>(rank)]) own.push_back(&port);
    return own;
  };
  const auto compare = [&](const bundle::PortInfo& port, graph::ValueId id) {
    const graph::Value& value = shard.value(id);
    const graph::Shape shape = local_shape(*port.ranges[static_cast<std::size_t>(rank)]);
    if (value.type != port.type || value.shape != shape)
      fail(
          "rank {}: its shard has '{}' as {} of {}, but meta-info.json as {} of {}; partition the "
          "model again",
          rank, value.name, graph::to_string(value.shape), name_of(value.type),
          graph::to_string(shape), name_of(port.type));
  };
  const std::vector<const bundle::PortInfo*> outputs = of_rank(profile.outputs);
  if (shard.outputs.size() != outputs.size())
    fail("rank {}: its shard has {} outputs, but meta-info.json {}; partition the model again",
         rank, shard.outputs.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (shard.value(shard.outputs[i]).name != outputs[i]->name)
      fail("rank {}: its shard has '{}' where meta-info.json has '{}'; partition the model again",
           rank, shard.value(shard.outputs[i]).name, outputs[i]->name);
    compare(*outputs[i], shard.outputs[i]);
  }
  const std::vector<const bundle::PortInfo*> inputs = of_rank(profile.inputs);
  for (const graph::ValueId id : shard.inputs) {
    const auto port = std::ranges::find(inputs, shard.value(id).name, &bundle::PortInfo::name);
    if (port == inputs.end())
      fail(
          "rank {}: its shard has an input '{}', but meta-info.json none; partition the model "
          "again",
          rank, shard.value(id).name);
    compare(**port, id);
  }
  if (shard.inputs.size() != inputs.size())
    fail("rank {}: its shard has {} inputs, but meta-info.json {}; partition the model again", rank,
         shard.inputs.size(), inputs.size());
}

/// Throws Error where weights lie in another file than the rank's own, which has a digest.
void check_constants(const bundle::RankInfo& rank, const std::filesystem::path& dir,
                     const Graph& shard) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> own;
  for (const bundle::FileInfo& file : rank.files)
    own.insert(MappedFile::open(dir / file.name)->identity());
  for (const graph::Value& value : shard.values)
    if (value.constant && value.constant->is_mapped() &&
        !own.contains(value.constant->file()->identity()))
      fail("rank {}: weight '{}' lies in a file that is not the rank's; partition the model again",
           rank.rank, value.name);
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
  as_it_is.limits = graph::shard_limits;
  as_it_is.unrolls = false;
  Graph shard = graph::load_onnx(dir / of_rank.files[profile].name, as_it_is);
  graph::drop_repeated_rows_of_attention_masks(shard);
  for (const bool sends : {false, true}) check_messages(of_profile, shard, rank, sends);
  check_ports(of_profile, shard, rank);
  check_constants(of_rank, dir, shard);
  check_collectives(info, shard, rank);
  for (const bundle::StateInfo& state : info.states)
    if (has_state(of_profile, state, rank))
      shard.states.push_back({place_of(shard, shard.outputs, state.output),
                              place_of(shard, shard.inputs, state.input)});
  return shard;
}

}  // namespace autopar::runtime
