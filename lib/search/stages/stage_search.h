#pragma once

#include <limits>

#include "base/stopwatch.h"
#include "search/search_plan.h"
#include "search/stages/search_pipeline.h"

namespace autopar::search {

/// What a pipeline is searched for, as search_pipeline takes it.
struct PipelineTask {
  const graph::Graph& whole;
  const graph::Graph& microbatch;
  const cost::DeviceModel& device;
  std::span<const cost::CostModel> meshes;
  const SearchOptions& options;
  const PipelineOptions& pipeline;
  Stopwatch stopwatch{};

  int devices() const { return meshes.front().mesh().num_devices(); }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
};

/// No pipeline was found that fits.
struct NoPipelineFits : NothingFits {
  NoPipelineFits(const std::string& message, double bound)
      : NothingFits(message, std::numeric_limits<std::int64_t>::max(),
                    bound == std::numeric_limits<double>::infinity()),
        lower_bound_seconds(bound) {}
  double lower_bound_seconds;  ///< no pipeline takes less; infinite where none fits
};

/// The best pipeline of stages, without the plan of the whole model. Throws as search_pipeline, and
/// NoPipelineFits.
FoundPipeline search_stages(const PipelineTask& task);

}  // namespace autopar::search
