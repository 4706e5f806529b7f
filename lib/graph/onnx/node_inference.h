#pragma once

#include <onnx/defs/schema.h>

#include "graph/onnx/import_limits.h"
#include "graph/onnx/infer_node.h"

namespace autopar::graph {

/// A node with what is known of its inputs: null for an input that is left out.
struct NodeInContext {
  onnx::NodeProto node;
  std::vector<const Value*> inputs;
  const onnx::OpSchema* schema = nullptr;
  std::map<std::string, std::int64_t> opsets;
  /// The data of a tensor among the attributes; null where the node is of no file.
  std::function<Tensor(const onnx::TensorProto&)> tensor = nullptr;
  /// What may still be made of the model that the node is of, and its file; null, and empty, where
  /// it is of none.
  ImportBudget* budget = nullptr;
  std::string_view where = {};

  /// Counts a constant that is made of the node. Throws LimitReached.
  void take_constant(std::int64_t bytes) const;
  /// Throws LimitReached where a node that is made of this one has more outputs than one may.
  void check_outputs(std::int64_t outputs) const;
};

/// The operator's own definition at these versions. Throws Error, naming the node, where ONNX has
/// none or the node does not follow it. `where` is the model's file.
const onnx::OpSchema& schema_of(const onnx::NodeProto& node,
                                const std::map<std::string, std::int64_t>& opsets,
                                std::string_view where);

/// Types and shapes of a node's outputs by ONNX's own inference, which sees constant inputs. Throws
/// Error for types and shapes that the operator does not allow.
std::vector<OutputType> infer_outputs(const NodeInContext& context, std::string_view where);

/// The values of a node's first output by ONNX's data propagation, where they are all known: shape
/// arithmetic on constant int64 scalars and vectors.
std::optional<Tensor> propagate_data(const NodeInContext& context, const OutputType& output);

/// The types of the inputs as ONNX's function builders want them.
std::vector<onnx::TypeProto> input_types(const NodeInContext& context);

}  // namespace autopar::graph
