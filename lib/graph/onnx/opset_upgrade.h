#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"

namespace autopar::graph {

/// What an upgrade may ask of the graph around its node.
struct UpgradeServices {
  /// Type and shape of one of the node's inputs.
  std::function<const Value&(const std::string& input)> value;
  /// Adds a constant and returns the name under which nodes read it.
  std::function<std::string(const std::string& wanted_name, Tensor tensor)> add_constant;
};

/// The opset in whose forms a model is imported: its own, but at least 18, and new enough for
/// every operator whose older form is no longer known.
std::int64_t target_opset(const onnx::ModelProto& model);

/// Rewrites a node of ONNX's own domain from the form of opset `from` to that of `to`: usually the
/// node itself with attributes turned into inputs, sometimes with others before or after it. The
/// node that does the work keeps its name.
std::vector<onnx::NodeProto> upgrade_node(const onnx::NodeProto& node, std::int64_t from,
                                          std::int64_t to, const UpgradeServices& services);

}  // namespace autopar::graph
