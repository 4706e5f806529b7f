#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>
#include <unordered_set>
#include <vector>

namespace autopar::graph {

/// The graph's nodes so that each stands behind what it reads, otherwise in the file's order; what
/// nested graphs read from outside counts for the node that holds them. Throws Error for a value
/// made twice, a value that nothing makes, and a cycle. `where` is the model's file.
std::vector<const onnx::NodeProto*> topological_order(const onnx::GraphProto& graph,
                                                      std::string_view where);

/// What a node reads, itself or in nested graphs, from outside of it.
std::unordered_set<std::string_view> names_read(const onnx::NodeProto& node);

/// "node 'x' (Add)", or "a node (Add) that makes 'y'" where it has no name.
std::string describe(const onnx::NodeProto& node);

}  // namespace autopar::graph
