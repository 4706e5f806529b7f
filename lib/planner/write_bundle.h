#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "bundle/meta_info.h"
#include "cost/device_model.h"
#include "graph/graph.h"
#include "graph/onnx/tail_file.h"
#include "planner/planner.h"
#include "program/memory_prediction.h"
#include "search/stages/search_pipeline.h"

namespace autopar::planner {

/// What write_bundle takes beside the plan.
struct WriteOptions {
  std::filesystem::path out;
  std::string model_name;
  bool force = false;                                     ///< replace `out` where it is a bundle
  program::RunBytes run_bytes = program::most_run_bytes;  ///< as for the search
  const graph::Tail* tail = nullptr;                      ///< of the model, if it has one
  /// The model, for what graphs of other shapes are made of; empty: the bundle has its profiles
  /// alone.
  std::filesystem::path model_file{};
  std::map<std::string, graph::Tensor> constants{};  ///< inputs that have these values for good
  std::string plan_text{};                           ///< of plan.json, for several profiles
  std::int64_t memory_limit_bytes = 0;               ///< of a rank, for other shapes, too
  std::string shards = bundle::own_shards;           ///< --shards
  /// Makes a rank's graph one for the runtime that --shards names, in a world of so many ranks;
  /// null for autopar.
  void (*use_collectives)(graph::Graph& shard, int ranks) = nullptr;
};

/// One of the profiles that are written. All have the same stages.
struct BundleProfile {
  const graph::Graph* whole = nullptr;  ///< the model for the whole batch
  const plan::PipelinePlan* plan = nullptr;
  const cost::DeviceModel* device = nullptr;  ///< the search's
  std::string binding{};
  double weight = 1;
};

/// What was found for all profiles together. Weights lie alike in all of them.
struct FoundPlans {
  std::vector<BundleProfile> profiles{};
  std::map<std::string, bundle::BatchInfo> batch{};  ///< see the other write_bundle
  double cost_seconds = 0;
  search::SearchReport report{};
};

/// plan.json's text: plan::plan_json with the search's report in its summary, and with what is
/// known of the tail, if there is one, under "tail".
std::string plan_json(const search::FoundPipeline& found,
                      std::span<const plan::CollectiveUse> collectives, const graph::Tail* tail);

/// Has a folder beside `out` filled and moves it there, so that it is whole or absent; one that is
/// replaced stays until then.
void publish_folder(const BundleOptions& options,
                    const std::function<void(const std::filesystem::path&)>& fill);

/// The bundle that autopar runs (planner.h's write_bundle).
std::string write_shards(const Plan& plan, const BundleOptions& options);

/// Writes a graph a profile and rank, the weights of each rank once, what graphs for other shapes
/// are made of, the tail, plan.json and meta-info.json, as below.
bundle::MetaInfo write_bundle(const FoundPlans& found, const WriteOptions& options);

/// For one profile: writes one shard a rank, the tail, plan.json and meta-info.json into a folder
/// beside `out` and moves it there, so that a bundle is whole or absent; one that is replaced stays
/// until then. Weights stream from the model's mapping to the files: memory does not grow with
/// them. Throws Error where check_output_folder does or where writing fails (a full disk); then
/// nothing is left behind. `device` is the search's. `whole` is the model for the whole batch,
/// whose inputs and outputs `batch` cuts into the microbatches that the plan is for, if it is for
/// several (split_batch.h).
bundle::MetaInfo write_bundle(const graph::Graph& whole,
                              const std::map<std::string, bundle::BatchInfo>& batch,
                              const search::FoundPipeline& found, const cost::DeviceModel& device,
                              const WriteOptions& options);

}  // namespace autopar::planner
