#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"
#include "search/profile.h"
#include "search/search_options.h"
#include "search/stages/search_pipeline.h"

namespace autopar::search {

/// The plans of several profiles in the same stages.
struct JointPipeline {
  std::vector<plan::PipelinePlan> plans;  ///< by profile, each predicts one run of it
  /// Seconds are summed by weight; memory is what the fullest rank needs in any profile.
  plan::Prediction predicted;
  SearchReport report;
};

/// Stages of several profiles, of one microbatch. Cuts and devices are the best ones of the
/// profile that has most work by its weight (search_pipeline); then each stage is searched for all
/// profiles together, so that weights and states lie one way in it. The report's lower bound holds
/// for whatever cuts, so it is loose: of other profiles it knows the operators' shares alone.
///
/// `meshes` as search_meshes takes them, of whole models. Throws as search_pipeline and
/// similar_cuts.
JointPipeline search_joint_pipeline(std::span<const std::vector<Profile>> meshes,
                                    const SearchOptions& options, const PipelineOptions& pipeline);

}  // namespace autopar::search
