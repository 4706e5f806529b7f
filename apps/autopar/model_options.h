#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "graph/onnx/import_with_tail.h"
#include "program/memory_prediction.h"
#include "program/split_batch.h"
#include "runtime/kernel.h"
#include "search/search_meshes.h"
#include "search/stages/search_pipeline.h"

namespace autopar {

/// The model, how its symbolic dimensions are bound, inputs that have one value for ever, and
/// what is handed from step to step.
struct ModelOptions {
  std::filesystem::path model;
  std::vector<std::string> shapes;
  std::vector<std::string> constants;
  std::vector<std::string> loops;
  void add_to(CLI::App& command);
};

/// What `plan` and `partition` ask of the search.
struct PlanOptions {
  int ngpus = 0;
  std::string mesh;
  std::string device = "h200";
  std::string memory = "fair";
  std::string search = "ilp";
  bool bound = false;
  bool no_presolve = false;
  std::filesystem::path strategy;
  double time_limit_seconds = 60;
  std::string stages = "1";
  int microbatches = 1;
  std::vector<std::string> batch;  ///< inputs that microbatches cut
  std::string objective = "latency";
  bool discover = false;  ///< rules for operators that have none, by running them on the CPU
  void add_to(CLI::App& command);
};

/// What `plan` and `partition` know before they read the model.
struct SearchSetup {
  /// For each mesh that is to be tried, the same device: one, or with `--mesh auto` all.
  std::vector<cost::CostModel> meshes;
  search::SearchOptions options;
};
/// Throws Error, all that is wrong at once: with the options, with what `check_files` finds, and
/// where something is wrong already with names and shapes that do not fit the model.
SearchSetup make_search_setup(const PlanOptions& plan, const ModelOptions& model,
                              const std::function<void()>& check_files);

/// Reads the model, its states among the graph's; constants are folded by the CPU's kernels.
graph::Imported load_model(const ModelOptions& options, bool weights_may_be_absent);

/// A model and what one microbatch of it is.
struct BatchedModel {
  graph::Graph whole;
  std::optional<graph::Tail> tail;
  program::SplitBatch split;
};
/// Where the batch is no multiple of the microbatches, `split` is that of the next greater one.
BatchedModel load_batched_model(const ModelOptions& options, const PlanOptions& plan,
                                bool weights_may_be_absent);

/// Where the device file says that autopar's runtime runs the shards: prices what that fuses in
/// this model, and weights that all fit a cache.
void fit_to_model(std::vector<cost::CostModel>& models, const graph::Graph& graph);
/// What may run a shard that is planned for the device: what it is for first, and the CPU, which
/// takes a GPU's place where there is none.
std::vector<const runtime::KernelTable*> kernels_for(const cost::DeviceModel& device);
/// The runtime's answer for whichever of these needs most.
program::RunBytes run_bytes_on(const cost::DeviceModel& device);
/// Searches, with the memory limit held against what the shards will need.
plan::PipelinePlan find_plan(const BatchedModel& model, const PlanOptions& plan,
                             std::span<const cost::CostModel> meshes,
                             search::SearchOptions options);
/// The plan of one stage, and the problem that it solves.
search::SolvedPlan find_solved_plan(const BatchedModel& model,
                                    std::span<const cost::CostModel> meshes,
                                    search::SearchOptions options);

}  // namespace autopar
