#include "bundle/meta_info.h"

#include <algorithm>
#include <fstream>
#include <tuple>
#include <utility>

#include "graph/error.h"

namespace autopar::bundle {

namespace {

using nlohmann::json;

json ranges_json(const std::vector<graph::Range>& ranges) {
  json list = json::array();
  for (const graph::Range& range : ranges) list.push_back({range.begin, range.end});
  return list;
}

json port_json(const PortInfo& port) {
  json ranges = json::array();
  for (const auto& of_rank : port.ranges) ranges.push_back(ranges_json(of_rank));
  return {{"name", port.name},
          {"type", name_of(port.type)},
          {"shape", port.shape},
          {"spec", port.spec},
          {"ranges", ranges}};
}

json rank_json(const RankInfo& rank) {
  json files = json::array();
  for (const FileInfo& file : rank.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  }
  return {{"rank", rank.rank},
          {"stage", rank.stage},
          {"coordinates", rank.coordinates},
          {"files", files},
          {"weight_bytes", rank.weight_bytes},
          {"peak_bytes", rank.peak_bytes}};
}

template <typename Items, typename ToJson>
json list_json(const Items& items, ToJson to_json_item) {
  json list = json::array();
  for (const auto& item : items) list.push_back(to_json_item(item));
  return list;
}

/// Reads fields by name; an absent or malformed one is an Error that names it.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail("{} is no JSON object; partition the model again", where_);
  }

  template <typename T>
  T get(const char* field) const {
    try {
      return at(field).get<T>();
    } catch (const json::exception&) {
      fail("{}: field '{}' is malformed; partition the model again", where_, field);
    }
  }

  Reader object(const char* field) const { return {at(field), where_ + "." + field}; }

  template <typename Read>
  auto list(const char* field, Read read) const {
    const json& items = at(field);
    if (!items.is_array()) fail("{}: field '{}' is no list", where_, field);
    std::vector<decltype(read(std::declval<Reader>()))> result;
    for (std::size_t i = 0; i < items.size(); ++i) {
      result.push_back(
          read(Reader(items[i], where_ + "." + field + "[" + std::to_string(i) + "]")));
    }
    return result;
  }

  const std::string& where() const { return where_; }

 private:
  const json& at(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) {
      fail("{}: field '{}' is missing; partition the model again", where_, field);
    }
    return *found;
  }

  const json& object_;
  std::string where_;
};

PortInfo read_port(const Reader& reader) {
  PortInfo port;
  port.name = reader.get<std::string>("name");
  port.type = graph::parse_data_type(reader.get<std::string>("type"));
  port.shape = reader.get<graph::Shape>("shape");
  port.spec = reader.get<std::string>("spec");
  using Pair = std::pair<std::int64_t, std::int64_t>;
  for (const auto& of_rank : reader.get<std::vector<std::vector<Pair>>>("ranges")) {
    auto& ranges = port.ranges.emplace_back();
    for (const auto& [begin, end] : of_rank) ranges.push_back({begin, end});
    bool fits = ranges.size() == port.shape.size();
    for (std::size_t dim = 0; fits && dim < ranges.size(); ++dim) {
      fits = 0 <= ranges[dim].begin && ranges[dim].begin <= ranges[dim].end &&
             ranges[dim].end <= port.shape[dim];
    }
    if (!fits) fail("{}: field 'ranges' does not fit the shape", reader.where());
  }
  return port;
}

RankInfo read_rank(const Reader& reader) {
  RankInfo rank;
  rank.rank = reader.get<int>("rank");
  rank.stage = reader.get<int>("stage");
  rank.coordinates = reader.get<std::vector<int>>("coordinates");
  rank.files = reader.list("files", [](const Reader& file) {
    FileInfo info{file.get<std::string>("name"), file.get<std::uint64_t>("bytes"),
                  file.get<std::string>("xxh3")};
    if (std::filesystem::path(info.name).filename() != info.name) {
      fail("{}: file '{}' is not a file of the bundle", file.where(), info.name);
    }
    return info;
  });
  if (rank.files.empty()) fail("{}: no files", reader.where());
  rank.weight_bytes = reader.get<std::int64_t>("weight_bytes");
  rank.peak_bytes = reader.get<std::int64_t>("peak_bytes");
  return rank;
}

MetaInfo read_meta_info(const Reader& reader) {
  if (const int version = reader.get<int>("version"); version != meta_info_version) {
    fail("{} has version {}, but this build reads {}; partition the model again", reader.where(),
         version, meta_info_version);
  }
  MetaInfo info;
  info.model = reader.get<std::string>("model");
  info.mesh = reader.list("mesh", [](const Reader& axis) {
    return MeshAxis{axis.get<std::string>("name"), axis.get<int>("size")};
  });
  info.stages = reader.list("stages", [](const Reader& stage) {
    return StageInfo{stage.get<int>("stage"), stage.get<std::vector<int>>("ranks")};
  });
  info.ranks = reader.list("ranks", read_rank);
  info.groups = reader.list("groups", [](const Reader& group) {
    return GroupInfo{group.get<std::vector<int>>("mesh_axes"),
                     group.get<std::vector<std::vector<int>>>("ranks")};
  });
  info.inputs = reader.list("inputs", read_port);
  info.outputs = reader.list("outputs", read_port);
  if (info.ranks.empty()) fail("{}: no ranks", reader.where());
  for (const auto* ports : {&info.inputs, &info.outputs}) {
    for (const PortInfo& port : *ports) {
      if (port.ranges.size() != info.ranks.size()) {
        fail("{}: '{}' has ranges for {} ranks, but there are {}", reader.where(), port.name,
             port.ranges.size(), info.ranks.size());
      }
    }
  }

  const Reader plan = reader.object("plan");
  info.search = plan.get<std::string>("search");
  info.search_seconds = plan.get<double>("seconds");
  info.cost_seconds = plan.get<double>("cost_seconds");
  info.lower_bound_seconds = plan.get<double>("lower_bound_seconds");
  info.proven_optimal = plan.get<bool>("proven_optimal");
  info.device = plan.get<std::string>("device");
  info.collectives = plan.list("collectives", [](const Reader& total) {
    return CollectiveTotal{total.get<std::string>("kind"), total.get<std::vector<int>>("mesh_axes"),
                           total.get<std::int64_t>("count"), total.get<std::int64_t>("bytes")};
  });
  return info;
}

}  // namespace

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
      {"mesh", list_json(info.mesh,
                         [](const MeshAxis& axis) {
                           return json{{"name", axis.name}, {"size", axis.size}};
                         })},
      {"stages", list_json(info.stages,
                           [](const StageInfo& stage) {
                             return json{{"stage", stage.stage}, {"ranks", stage.ranks}};
                           })},
      {"ranks", list_json(info.ranks, rank_json)},
      {"groups", list_json(info.groups,
                           [](const GroupInfo& group) {
                             return json{{"mesh_axes", group.mesh_axes}, {"ranks", group.ranks}};
                           })},
      {"inputs", list_json(info.inputs, port_json)},
      {"outputs", list_json(info.outputs, port_json)},
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

MetaInfo load_meta_info(const std::filesystem::path& bundle_dir) {
  const std::filesystem::path file = bundle_dir / "meta-info.json";
  std::ifstream stream(file);
  if (!stream) fail("{} cannot be read; give a folder that autopar partition wrote", file.string());
  json parsed;
  try {
    parsed = json::parse(stream);
  } catch (const json::exception&) {
    fail("{} is no JSON; partition the model again", file.string());
  }
  return read_meta_info(Reader(parsed, file.string()));
}

}  // namespace autopar::bundle
