#pragma once

#include <string>

#include "planner/planner.h"

namespace autopar::planner {

/// Writes the whole model with the plan as ONNX's multi-device annotations
/// (plan/plan_annotations.h), its weights beside it, and plan.json. Throws as write_bundle.
std::string write_annotated(const Plan& plan, const BundleOptions& options);

}  // namespace autopar::planner
