#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bundle/collective_total.h"
#include "graph/graph.h"
#include "graph/tail.h"

namespace autopar::bundle {

struct FileInfo {
  std::string name;  ///< relative to the bundle
  std::uint64_t bytes = 0;
  std::string xxh3;
};

struct RankInfo {
  int rank = 0;
  int stage = 0;
  std::vector<int> coordinates;   ///< on its stage's mesh
  std::vector<FileInfo> files;    ///< a graph a profile, then data where there is any
  std::int64_t weight_bytes = 0;  ///< rank 0's with those of the tail
  /// Predicted: weights, and the arena and states of any profile, which has beside its own those
  /// of the profile whose states are longest.
  std::int64_t peak_bytes = 0;
};

/// How a tensor is cut into microbatches: along `dim`, `rows` each. The last may have fewer; it is
/// filled up with copies of its last row, and what comes out for those is dropped.
struct BatchInfo {
  int dim = 0;
  std::int64_t rows = 0;
  friend bool operator==(const BatchInfo&, const BatchInfo&) = default;
};

/// A model input or output: global type and shape, and what of a microbatch of it each rank has (a
/// range a dimension, by rank), so that a runner needs to know nothing of specs.
struct PortInfo {
  std::string name;
  graph::DataType type = graph::DataType::undefined;
  graph::Shape shape;                ///< of the whole batch
  std::vector<std::string> specs{};  ///< by stage; empty where the stage does not have it
  std::optional<BatchInfo> batch{};  ///< none: every microbatch has the whole tensor
  std::vector<std::optional<std::vector<graph::Range>>>
      ranges{};  ///< none where a rank has nothing

  /// One microbatch's shape.
  graph::Shape microbatch_shape() const;
};

struct MeshAxis {
  std::string name;
  int size = 1;
};

struct GroupInfo {
  int stage = 0;
  std::vector<int> mesh_axes;           ///< of the stage's mesh
  std::vector<std::vector<int>> ranks;  ///< every group along those axes
};

/// A pipeline stage; the next receives what it sends. Seconds are predicted, of one microbatch.
struct StageInfo {
  int stage = 0;
  std::vector<MeshAxis> mesh{};
  std::vector<int> ranks{};     ///< row-major on the mesh
  double seconds = 0;           ///< of its work
  double transfer_seconds = 0;  ///< of what it sends to the next stage
};

/// An output whose shards take the place of an input's in the next step of a loop, each on its
/// rank.
struct StateInfo {
  std::string output;
  std::string input;
};

/// A value's way from one stage to the next, in one microbatch.
struct TransferInfo {
  std::string value;
  int from_stage = 0;
  struct Message {
    int from = 0;  ///< rank
    int to = 0;    ///< rank
    std::int64_t bytes = 0;
    friend bool operator==(const Message&, const Message&) = default;
  };
  std::vector<Message> messages;
};

/// What depends on the shapes of a run's inputs.
struct ProfileInfo {
  std::string binding{};    ///< what is bound, "batch=1 sequence=128"; empty where nothing is open
  double weight = 1;        ///< in the search's objective
  double cost_seconds = 0;  ///< of a run, predicted
  std::vector<std::int64_t> peak_bytes{};  ///< by rank, predicted: weights and arena at most
  std::vector<TransferInfo> transfers{};   ///< by boundary, in the order in which they are sent
  std::vector<PortInfo> inputs{};
  std::vector<PortInfo> outputs{};  ///< what ranks make: the model's, then what the tail reads
  std::vector<CollectiveTotal> collectives{};  ///< of a run
};

/// The end of the model, whose shapes only a run tells: rank 0 computes it on its host when it has
/// put the ranks' outputs together.
struct TailInfo {
  std::vector<FileInfo> files;  ///< model first, then data where there is one
  graph::TailSummary summary;
};

/// Names of the files of MetaInfo::structure.
inline constexpr const char* structure_file = "structure.onnx";
inline constexpr const char* structure_data_file = "structure.data";
inline constexpr const char* device_file = "device.json";
inline constexpr const char* plan_file = "plan.json";
/// Names of a rank's files: "rank0.onnx" of the first profile, "rank0.1.onnx" of the next one.
std::string graph_file(int rank, std::size_t profile);
std::string data_file(int rank);
/// Names of the files of TailInfo.
inline constexpr const char* tail_file = "tail.onnx";
inline constexpr const char* tail_data_file = "tail.data";

/// MetaInfo::shards of those that autopar runs.
inline constexpr const char* own_shards = "autopar";

/// meta-info.json: what was planned, for whom, and how to start it. Its JSON schema is
/// lib/bundle/meta-info.schema.json.
struct MetaInfo {
  std::string model;                ///< the model file's name, without its folder
  std::string shards = own_shards;  ///< whose collectives they have, as --shards calls it
  std::vector<StageInfo> stages;    ///< in order
  int microbatches = 1;             ///< of a run: stage after stage, each in order
  std::vector<RankInfo> ranks;
  std::vector<GroupInfo> groups;
  std::vector<ProfileInfo> profiles;  ///< at least one
  std::vector<StateInfo> states;
  std::vector<FileInfo> files{};  ///< plan.json, which a bundle with a structure has
  /// What graphs for other shapes are made of: the model without weights, larger constants that no
  /// rank has, the device that was planned for. None where the bundle is for its profiles alone.
  std::vector<FileInfo> structure{};
  std::string device;
  std::string search;
  double search_seconds = 0;
  double cost_seconds = 0;  ///< the weighted sum of the profiles'
  double lower_bound_seconds = 0;
  bool proven_optimal = false;
  std::int64_t memory_limit_bytes = 0;  ///< of a rank, weights and arena together
  std::optional<TailInfo> tail{};
};

/// The whole file, with version and digest.
nlohmann::json to_json(const MetaInfo& info);
nlohmann::json to_json(const std::vector<CollectiveTotal>& totals);
/// What meta-info.json says of a tail, without its files.
nlohmann::json to_json(const graph::TailSummary& tail);
/// The file's text. Its field `digest` is the XXH3-64 of the text that has zeros in its place.
std::string sealed_text(nlohmann::json meta_info);
/// Throws Error naming the file where it is of another version or was changed after it was written,
/// the field that is missing or malformed, or what does not fit together (check_meta_info.h).
/// Fields that it does not know are passed over. Throws Error, too, where the shards are for
/// another runtime.
MetaInfo load_meta_info(const std::filesystem::path& bundle_dir);
/// The same whatever the shards are for: for whoever does not run them.
MetaInfo load_meta_info_of_any(const std::filesystem::path& bundle_dir);

/// Throws Error naming the first file of the rank (all ranks for -1) that is missing, of another
/// size or of another digest, and any foreign rank*.onnx or rank*.data file in the folder.
void check_files(const MetaInfo& info, const std::filesystem::path& bundle_dir, int rank = -1);
/// The same for files that no rank has alone.
void check_common_files(std::span<const FileInfo> files, const std::filesystem::path& bundle_dir);
/// The same for every file that meta-info.json knows.
void check_all_files(const MetaInfo& info, const std::filesystem::path& bundle_dir);

/// The model's outputs in its order, whether ranks or the tail make them.
std::vector<graph::ModelOutput> model_outputs(const MetaInfo& info, const ProfileInfo& profile);

}  // namespace autopar::bundle
