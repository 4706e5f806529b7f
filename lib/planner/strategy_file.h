#pragma once

#include <optional>
#include <vector>

#include "graph/onnx/device_annotations.h"
#include "planner/planner.h"
#include "search/pins.h"

namespace autopar::planner {

struct SearchSetup;  // find_plan.h

/// Whether --strategy is an ONNX model.
bool has_annotations(const PlanOptions& options);

/// The annotations of --strategy, where that is an ONNX model. Throws Error as read_annotations.
std::optional<graph::DeviceAnnotations> annotations_of(const PlanOptions& options);

/// How --strategy is called in messages.
std::string strategy_name(const PlanOptions& options);

/// The pins of --strategy with their names at least; none where it is not given. Throws Error for
/// what is wrong with the file.
std::vector<search::Pin> pins_by_name(const PlanOptions& options);

/// All pins for the model, those of annotations among them. Warns of annotated nodes that are no
/// operators once the model is read, which it leaves out. Throws Error as search::pins_of.
std::vector<search::Pin> pins_for(const SearchSetup& setup, const LoadedModel& model);

}  // namespace autopar::planner
