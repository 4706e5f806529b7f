#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"

namespace autopar::graph {

/// Null where the node has no such attribute.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
std::int64_t int_or(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise);

/// Gives the node the attribute, which it must not have yet.
void add_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value);
/// Gives the node the attribute in the place of one of that name.
void set_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value);
void remove_attribute(onnx::NodeProto& node, std::string_view name);
/// Gives the node the attribute where it has none of that name.
void add_default(onnx::NodeProto& node, const onnx::AttributeProto& attribute);

}  // namespace autopar::graph
