#include "bundle/meta_info.h"

#include <algorithm>
#include <tuple>

#include "bundle/json_reader.h"

namespace autopar::bundle {

namespace {

json ranges_json(const std::vector<graph::Range>& ranges) {
  json list = json::array();
  for (const graph::Range& range : ranges) list.push_back({range.begin, range.end});
  return list;
}

json port_json(const PortInfo& port) {
  json ranges = json::array();
  for (const auto& of_rank : port.ranges)
    ranges.push_back(of_rank ? ranges_json(*of_rank) : json(nullptr));
  json batch;
  if (port.batch) batch = {{"dim", port.batch->dim}, {"rows", port.batch->rows}};
  return {{"name", port.name},   {"type", name_of(port.type)},
          {"shape", port.shape}, {"specs", port.specs},
          {"batch", batch},      {"ranges", ranges}};
}

json rank_json(const RankInfo& rank) {
  return {{"rank", rank.rank},
          {"stage", rank.stage},
          {"coordinates", rank.coordinates},
          {"files", to_json(rank.files)},
          {"weight_bytes", rank.weight_bytes},
          {"peak_bytes", rank.peak_bytes}};
}

template <typename Items, typename ToJson>
json list_json(const Items& items, ToJson to_json_item) {
  json list = json::array();
  for (const auto& item : items) list.push_back(to_json_item(item));
  return list;
}

json stage_json(const StageInfo& stage) {
  return {{"stage", stage.stage},
          {"mesh", list_json(stage.mesh,
                             [](const MeshAxis& axis) {
                               return json{{"name", axis.name}, {"size", axis.size}};
                             })},
          {"ranks", stage.ranks},
          {"seconds", stage.seconds},
          {"transfer_seconds", stage.transfer_seconds}};
}

json transfer_json(const TransferInfo& transfer) {
  return {{"value", transfer.value},
          {"from_stage", transfer.from_stage},
          {"messages", list_json(transfer.messages, [](const TransferInfo::Message& message) {
             return json{{"from", message.from}, {"to", message.to}, {"bytes", message.bytes}};
           })}};
}

}  // namespace

json to_json(const std::vector<FileInfo>& files) {
  json list = json::array();
  for (const FileInfo& file : files)
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  return list;
}

graph::Shape PortInfo::microbatch_shape() const {
  graph::Shape result = shape;
  if (batch) result[batch->dim] = batch->rows;
  return result;
}

void add_collective(std::vector<CollectiveTotal>& totals, const CollectiveTotal& more) {
  const auto key = [](const CollectiveTotal& total) {
    return std::tie(total.kind, total.mesh_axes);
  };
  const auto place = std::ranges::lower_bound(totals, key(more), {}, key);
  if (place != totals.end() && key(*place) == key(more)) {
    place->count += more.count;
    place->bytes += more.bytes;
  } else {
    totals.insert(place, more);
  }
}

json to_json(const std::vector<CollectiveTotal>& totals) {
  return list_json(totals, [](const CollectiveTotal& total) {
    return json{{"kind", total.kind},
                {"mesh_axes", total.mesh_axes},
                {"count", total.count},
                {"bytes", total.bytes}};
  });
}

json to_json(const MetaInfo& info) {
  return {
      {"version", meta_info_version},
      {"model", info.model},
      {"stages", list_json(info.stages, stage_json)},
      {"microbatches", info.microbatches},
      {"ranks", list_json(info.ranks, rank_json)},
      {"groups", list_json(info.groups,
                           [](const GroupInfo& group) {
                             return json{{"stage", group.stage},
                                         {"mesh_axes", group.mesh_axes},
                                         {"ranks", group.ranks}};
                           })},
      {"transfers", list_json(info.transfers, transfer_json)},
      {"inputs", list_json(info.inputs, port_json)},
      {"outputs", list_json(info.outputs, port_json)},
      {"states", list_json(info.states,
                           [](const StateInfo& state) {
                             return json{{"output", state.output}, {"input", state.input}};
                           })},
      {"plan",
       {{"search", info.search},
        {"seconds", info.search_seconds},
        {"cost_seconds", info.cost_seconds},
        {"lower_bound_seconds", info.lower_bound_seconds},
        {"proven_optimal", info.proven_optimal},
        {"device", info.device},
        {"collectives", to_json(info.collectives)}}},
  };
}

}  // namespace autopar::bundle
