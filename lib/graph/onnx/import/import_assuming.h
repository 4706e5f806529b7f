#pragma once

#include <functional>
#include <vector>

#include "graph/onnx/import/input_shapes.h"
#include "graph/onnx/import/tied_extents.h"
#include "graph/onnx/tail_file.h"

namespace autopar::graph {

/// Reads a model whose inputs have such shapes.
struct ModelReaders {
  /// The whole model. Tells outputs that contradict what is declared, even where it throws Error.
  std::function<Imported(const BoundInputs& bound, std::vector<ContradictedOutput>& contradicted)>
      import;
  /// Its nodes up to the first that is refused.
  std::function<Attempt(const BoundInputs& bound)> attempt;
};

/// Imports the model with what was given of its inputs and what is assumed of the rest. Where it
/// refuses that, or an output contradicts it, what it ties together is found, and it is imported
/// again. Throws what the import throws; with what to give where that may be the assumptions'
/// fault. `where` is the model's file.
Imported import_assuming(const onnx::GraphProto& graph, const BoundInputs& given,
                         const std::string& where, const ModelReaders& readers);

}  // namespace autopar::graph
