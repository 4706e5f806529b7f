#pragma once

#include "graph/onnx/import/model_reading.h"

namespace autopar::graph {

/// Reads a node into the graph that is being built, as an interpreter would take it: upgrades its
/// form, infers its outputs, and folds it into constants, inlines it where it is a function without
/// a kernel, or adds it. Functions and nested graphs are read in scopes of their own. Defines the
/// node's outputs in the scope.
void import_node(const onnx::NodeProto& node, Scope& scope);

/// Reads a node that has the form of the target opset.
void import_upgraded(const onnx::NodeProto& node, Scope& scope);

}  // namespace autopar::graph
