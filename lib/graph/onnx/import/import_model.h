#pragma once

#include <map>
#include <string>

#include "graph/onnx/import_with_tail.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

/// What becomes of a node whose outputs have shapes that only a run tells.
enum class OfUnknownShape {
  refused,  ///< as an error
  left,     ///< to the tail
};

/// A function of the model has such a node in it: only nodes of the model's own graph are left.
struct FunctionHidesTail {};

/// Makes a graph of a model: its inputs, weights, nodes and outputs, and what is left to the tail.
/// Throws FunctionHidesTail where the tail would begin within a function.
Imported import_model(ModelFile& file, const ImportOptions& options, OfUnknownShape unknown);

/// The model's outputs by name, where `options` give all of its inputs as constants.
std::map<std::string, Tensor> interpret_model(ModelFile& file, const ImportOptions& options);

/// Registers the operators that ONNX's library does not know.
void register_schemas();

}  // namespace autopar::graph
