#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/onnx/control_flow.h"

namespace autopar::graph {

/// Null where the node has no such attribute.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
/// The nested graph of that name.
const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name);

/// The number of a constant of one; nullopt where it is known in a run alone.
std::optional<std::int64_t> known(ValueId id, const ControlFlowServices& services);

/// Constants: a number, a truth, a list of numbers.
ValueId integer(std::int64_t value, const ControlFlowServices& services);
ValueId truth(bool value, const ControlFlowServices& services);
ValueId vector_of(const Shape& values, const ControlFlowServices& services);

/// The values along a new dimension.
ValueId stacked(const std::vector<ValueId>& parts, std::int64_t axis,
                const ControlFlowServices& services);
/// What has one index along a dimension, without that.
ValueId part(ValueId of, std::int64_t index, std::int64_t axis,
             const ControlFlowServices& services);

}  // namespace autopar::graph
