#pragma once

#include <filesystem>

#include "runtime/independent_rows.h"

namespace autopar::planner {

/// Proves of a bundle's model, for inputs of some shapes, that the rows of its batch are
/// independent, as microbatches have it proven (program/split_batch.h): each operator is cut along
/// the batch without a collective, and nothing but shapes follows from the batch's size. The batch
/// is in a dimension that the model leaves open: in the first of the first input that has such, or,
/// where something is computed across that, in the next one; and in all that the model calls by the
/// same symbol. Empty where the bundle is for its profiles alone, which have one batch each. Throws
/// Error where meta-info.json cannot be read. `limits`: as of shape_source.
runtime::RowProof row_proof(const std::filesystem::path& bundle_dir,
                            const std::string& limits = {});

}  // namespace autopar::planner
