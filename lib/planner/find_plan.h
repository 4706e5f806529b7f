#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "cost/cost_model.h"
#include "graph/onnx/device_annotations.h"
#include "planner/load_model.h"
#include "search/search_meshes.h"
#include "search/stages/joint_pipeline.h"
#include "search/stages/search_pipeline.h"

namespace autopar::planner {

/// What Plan holds.
struct FoundPlan {
  struct Profile {
    plan::PipelinePlan plan;
    cost::DeviceModel device;  ///< the search's, fitted to this profile's graph
  };
  std::shared_ptr<const LoadedModel> model;
  /// Inputs and outputs that microbatches cut, by name; none without microbatches.
  std::map<std::string, bundle::BatchInfo> ports;
  std::vector<Profile> profiles;  ///< as the model's; of microbatches one alone
  /// The sum of all profiles' costs by weight, and the memory that the fullest one needs.
  plan::Prediction predicted;
  search::SearchReport report;
  std::int64_t memory_limit_bytes = 0;  ///< of a rank, weights and arena together
  bool interrupted = false;             ///< whether a signal ended the search
  std::string shards = "autopar";       ///< PlanOptions::shards
};

/// PlanOptions as the search takes them.
struct SearchSetup {
  /// The same device on each mesh that is to be tried: one, or with "auto" all.
  std::vector<cost::CostModel> meshes;
  search::SearchOptions search;  ///< with the pins of --strategy, but for annotations
  search::PipelineOptions pipeline;
  std::optional<graph::DeviceAnnotations> annotations{};  ///< of --strategy MODEL.onnx
  std::string strategy{};                                 ///< how messages call it
};

/// Throws Error, all that is wrong with the options at once.
SearchSetup make_search_setup(const PlanOptions& options);

/// Bytes that rank 0 needs beside its shard: weights of the tail, where the host that computes it
/// shares memory with the shard.
std::int64_t rank0_bytes(const LoadedModel& model, const cost::DeviceModel& device);

/// Throws Error where several profiles are to be cut into microbatches.
void check_one_microbatch(const PlanOptions& options, std::size_t profiles);

/// Finds rules of libraries' operators, and with PlanOptions::discover of all others that have
/// none; warns of those that have none still.
void discover_missing_rules(const PlanOptions& plan, const graph::Graph& graph);

/// The model's profiles as the search takes them, each with cost models that are fitted to its
/// graph (device_fit.h). It refers to itself and to the model.
class FittedProfiles {
 public:
  FittedProfiles(const LoadedModel& model, const std::vector<cost::CostModel>& meshes);
  FittedProfiles(const FittedProfiles&) = delete;

  /// By mesh.
  const std::vector<std::vector<search::Profile>>& meshes() const { return meshes_; }
  const cost::DeviceModel& device(std::size_t profile) const {
    return costs_[profile].front().device();
  }

 private:
  std::vector<graph::StageGraph> stages_;
  std::vector<std::vector<cost::CostModel>> costs_;  ///< by profile and mesh
  std::vector<std::vector<search::Profile>> meshes_;
};

/// The plans of all profiles in one stage, and the problem that they solve.
search::JointPlan find_joint_plan(const LoadedModel& model, const SearchSetup& setup,
                                  const FittedProfiles& profiles, const Progress& progress);

}  // namespace autopar::planner
