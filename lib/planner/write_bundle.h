#pragma once

#include <filesystem>
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
};

/// plan.json's text: plan::plan_json with the search's report in its summary, and with what is
/// known of the tail, if there is one, under "tail".
std::string plan_json(const search::FoundPipeline& found,
                      std::span<const plan::CollectiveUse> collectives, const graph::Tail* tail);

/// Writes one shard a rank, the tail, plan.json and meta-info.json into a folder beside `out` and
/// moves it there, so that a bundle is whole or absent; one that is replaced stays until then.
/// Weights stream from the model's mapping to the files: memory does not grow with them. Throws
/// Error where check_output_folder does or where writing fails (a full disk); then nothing is left
/// behind. `device` is the search's. `whole` is the model for the whole batch, whose inputs and
/// outputs `batch` cuts into the microbatches that the plan is for, if it is for several
/// (split_batch.h).
bundle::MetaInfo write_bundle(const graph::Graph& whole,
                              const std::map<std::string, bundle::BatchInfo>& batch,
                              const search::FoundPipeline& found, const cost::DeviceModel& device,
                              const WriteOptions& options);

}  // namespace autopar::planner
