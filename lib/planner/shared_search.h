#pragma once

#include "planner/planner.h"

namespace autopar::planner {

/// What several searches at a time settle of each.
struct SearchShare {
  int threads = 0;    ///< 0: as many as the machine has
  bool warns = true;  ///< as search::SearchOptions has it
};

/// plan(), as one of several searches. At the same time as others it may not be called where it
/// brings rules: with PlanOptions::discover, operators of libraries, or microbatches, for which the
/// model is read again.
Plan plan(const Model& model, const PlanOptions& options, const SearchShare& share);

}  // namespace autopar::planner
