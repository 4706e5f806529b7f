#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/onnx/control_flow/node_reader.h"

namespace autopar::graph {

/// Null where the node has no such attribute.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
/// The nested graph of that name.
const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name);

/// The number of a constant of one; nullopt where it is known in a run alone.
std::optional<std::int64_t> known(ValueId id, NodeReader& reader);

/// Constants: a number, a truth, a list of numbers.
ValueId integer(std::int64_t value, NodeReader& reader);
ValueId truth(bool value, NodeReader& reader);
ValueId vector_of(const Shape& values, NodeReader& reader);

/// The values along a new dimension.
ValueId stacked(const std::vector<ValueId>& parts, std::int64_t axis, NodeReader& reader);
/// `yes` where the condition, of one element, holds, else `no`.
ValueId either(ValueId condition, ValueId yes, ValueId no, NodeReader& reader);

/// Throws UnknownShape.
[[noreturn]] void fail_unknown(const std::string& what);

/// What has one index along a dimension, without that.
ValueId part(ValueId of, std::int64_t index, std::int64_t axis, NodeReader& reader);

}  // namespace autopar::graph
