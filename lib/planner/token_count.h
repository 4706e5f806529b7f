#pragma once

#include <cstdint>
#include <optional>

#include "planner/load_model.h"

namespace autopar::planner {

/// The tokens that a run of the profile reads: of a decoder or encoder of text the elements of its
/// input_ids (or of the first input whose name ends so), batch x tokens; else batch x the extent of
/// the first dimension behind the batch that an input's symbol calls a sequence and no past, total
/// or cached one. nullopt where the model has neither. Throws Error where its file cannot be read.
std::optional<std::int64_t> tokens_of_run(const LoadedModel& model, std::size_t profile);

}  // namespace autopar::planner
