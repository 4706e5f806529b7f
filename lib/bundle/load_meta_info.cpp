#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "bundle/json_reader.h"
#include "bundle/meta_info.h"
#include "bundle/tail_info.h"

namespace autopar::bundle {

namespace {

PortInfo read_port(const Reader& reader) {
  PortInfo port;
  port.name = reader.get<std::string>("name");
  port.type = reader.get<graph::DataType>("type");
  port.shape = reader.get<graph::Shape>("shape");
  port.specs = reader.get<std::vector<std::string>>("specs");
  if (const auto batch = reader.object_or_null("batch")) {
    port.batch = {batch->get<int>("dim"), batch->get<std::int64_t>("rows")};
    const auto dim = static_cast<std::size_t>(port.batch->dim);
    reader.check(dim < port.shape.size() && port.batch->rows > 0,
                 "has a 'batch' that does not fit its shape");
  }
  port.ranges = reader.get<std::vector<std::optional<std::vector<graph::Range>>>>("ranges");
  const graph::Shape shape = port.microbatch_shape();
  for (const auto& of_rank : port.ranges) {
    if (!of_rank) continue;
    bool fits = of_rank->size() == shape.size();
    for (std::size_t dim = 0; fits && dim < of_rank->size(); ++dim) {
      fits = (*of_rank)[dim].end <= shape[dim];
    }
    reader.check(fits, "has 'ranges' that do not fit its shape");
  }
  return port;
}

}  // namespace

FileInfo read_file(const Reader& reader) {
  FileInfo file{reader.get<std::string>("name"), reader.get<std::uint64_t>("bytes"),
                reader.get<std::string>("xxh3")};
  const std::filesystem::path name = file.name;
  reader.check(!name.empty() && name.filename() == name && name != "." && name != "..",
               fmt::format("names '{}', which is no file of the bundle", file.name));
  return file;
}

namespace {

RankInfo read_rank(const Reader& reader) {
  RankInfo rank;
  rank.rank = reader.get<int>("rank");
  rank.stage = reader.get<int>("stage");
  rank.coordinates = reader.get<std::vector<int>>("coordinates");
  rank.files = reader.list("files", read_file);
  reader.check(!rank.files.empty(), "has no files");
  rank.weight_bytes = reader.get<std::int64_t>("weight_bytes");
  rank.peak_bytes = reader.get<std::int64_t>("peak_bytes");
  return rank;
}

StageInfo read_stage(const Reader& reader) {
  StageInfo stage;
  stage.stage = reader.get<int>("stage");
  stage.mesh = reader.list("mesh", [](const Reader& axis) {
    return MeshAxis{axis.get<std::string>("name"), axis.get<int>("size")};
  });
  stage.ranks = reader.get<std::vector<int>>("ranks");
  stage.seconds = reader.get<double>("seconds");
  stage.transfer_seconds = reader.get<double>("transfer_seconds");
  std::size_t devices = 1;
  for (const MeshAxis& axis : stage.mesh) devices *= static_cast<std::size_t>(axis.size);
  reader.check(devices == stage.ranks.size() && devices > 0,
               fmt::format("has {} ranks for a mesh of {}", stage.ranks.size(), devices));
  return stage;
}

TransferInfo read_transfer(const Reader& reader) {
  TransferInfo transfer;
  transfer.value = reader.get<std::string>("value");
  transfer.from_stage = reader.get<int>("from_stage");
  transfer.messages = reader.list("messages", [](const Reader& message) {
    return TransferInfo::Message{message.get<int>("from"), message.get<int>("to"),
                                 message.get<std::int64_t>("bytes")};
  });
  return transfer;
}

void read_plan(const Reader& reader, MetaInfo& info) {
  info.search = reader.get<std::string>("search");
  info.search_seconds = reader.get<double>("seconds");
  info.cost_seconds = reader.get<double>("cost_seconds");
  info.lower_bound_seconds = reader.get<double>("lower_bound_seconds");
  info.proven_optimal = reader.get<bool>("proven_optimal");
  info.device = reader.get<std::string>("device");
  info.collectives = reader.list("collectives", [](const Reader& total) {
    return CollectiveTotal{total.get<std::string>("kind"), total.get<std::vector<int>>("mesh_axes"),
                           total.get<std::int64_t>("count"), total.get<std::int64_t>("bytes")};
  });
}

/// The stages' ranks are all ranks, in order, and each rank says so.
void check_stages(const Reader& reader, const MetaInfo& info) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < info.stages.size(); ++s) {
    reader.check(info.stages[s].stage == static_cast<int>(s),
                 fmt::format("has stage {} in place of stage {}", info.stages[s].stage, s));
    for (const int rank : info.stages[s].ranks) {
      reader.check(rank == static_cast<int>(next) && next < info.ranks.size() &&
                       info.ranks[next].stage == static_cast<int>(s),
                   fmt::format("has stages that disagree about rank {}", rank));
      ++next;
    }
  }
  reader.check(next == info.ranks.size() && next > 0,
               fmt::format("has {} ranks, but stages with {}", info.ranks.size(), next));
}

/// Messages lead from a stage's ranks to the next one's.
void check_transfers(const Reader& reader, const MetaInfo& info) {
  const auto stage_of = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return r < info.ranks.size() ? info.ranks[r].stage : -1;
  };
  for (const TransferInfo& transfer : info.transfers) {
    for (const auto& message : transfer.messages) {
      reader.check(stage_of(message.from) == transfer.from_stage &&
                       stage_of(message.to) == transfer.from_stage + 1,
                   fmt::format("has stages that disagree: '{}' goes from rank {} to rank {}",
                               transfer.value, message.from, message.to));
    }
  }
}

/// What one part says of another: stages and ranks, and whatever is told by rank.
void check_consistency(const Reader& reader, const MetaInfo& info) {
  const std::size_t ranks = info.ranks.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    reader.check(info.ranks[r].rank == static_cast<int>(r),
                 fmt::format("has rank {} in place of rank {}", info.ranks[r].rank, r));
  }
  reader.check(info.microbatches > 0, "has no 'microbatches'");
  check_stages(reader, info);
  check_transfers(reader, info);
  for (const auto* ports : {&info.inputs, &info.outputs}) {
    for (const PortInfo& port : *ports) {
      reader.check(port.ranges.size() == ranks, fmt::format("has '{}' for {} ranks of {}",
                                                            port.name, port.ranges.size(), ranks));
      const bool is_covered =
          !port.batch || port.batch->rows * info.microbatches >= port.shape[port.batch->dim];
      reader.check(is_covered, fmt::format("has microbatches that are not all of '{}'", port.name));
      reader.check(
          std::ranges::any_of(port.ranges, [](const auto& of_rank) { return of_rank.has_value(); }),
          fmt::format("has '{}' on no rank", port.name));
    }
  }
}

MetaInfo read_meta_info(const Reader& reader) {
  const int version = reader.get<int>("version");
  reader.check(version == meta_info_version || version == meta_info_version_with_tail,
               fmt::format("has version {}, but this build reads {} and {}", version,
                           meta_info_version, meta_info_version_with_tail));
  MetaInfo info;
  info.model = reader.get<std::string>("model");
  info.stages = reader.list("stages", read_stage);
  info.microbatches = reader.get<int>("microbatches");
  info.ranks = reader.list("ranks", read_rank);
  info.groups = reader.list("groups", [](const Reader& group) {
    return GroupInfo{group.get<int>("stage"), group.get<std::vector<int>>("mesh_axes"),
                     group.get<std::vector<std::vector<int>>>("ranks")};
  });
  info.transfers = reader.list("transfers", read_transfer);
  info.inputs = reader.list("inputs", read_port);
  info.outputs = reader.list("outputs", read_port);
  info.states = reader.list("states", [](const Reader& state) {
    return StateInfo{state.get<std::string>("output"), state.get<std::string>("input")};
  });
  read_plan(reader.object("plan"), info);
  check_consistency(reader, info);
  return info;
}

}  // namespace

nlohmann::json load_meta_info_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) fail("{} cannot be read; give a folder that autopar partition wrote", file.string());
  try {
    return nlohmann::json::parse(stream);
  } catch (const std::exception&) {  // no JSON, or a folder
    fail("{} is no JSON; partition the model again", file.string());
  }
}

MetaInfo load_meta_info(const std::filesystem::path& bundle_dir) {
  const std::filesystem::path file = bundle_dir / "meta-info.json";
  const nlohmann::json parsed = load_meta_info_json(file);
  return read_meta_info(Reader(parsed, file.string()));
}

}  // namespace autopar::bundle
