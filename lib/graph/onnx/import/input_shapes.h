#pragma once

#include <onnx/onnx_pb.h>

#include "graph/onnx/import/symbols.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// The inputs that a caller of the model gives: those that are not initializers, which older files
/// list as inputs as well.
std::vector<const onnx::ValueInfoProto*> free_inputs(const onnx::GraphProto& graph);

/// Static shapes of inputs, and what symbols stand for in them.
struct BoundInputs {
  std::map<std::string, Shape> shapes;  ///< of every free input, by name
  Symbols symbols;
};

/// Each input's own dimensions, symbols bound by `--shape`. Where bindings contradict each other
/// (one symbol with two extents, a sum of symbols that is another), they hold as they are, since
/// other runtimes take them, with a warning. Throws Error, all that is wrong at once, for a symbol
/// that stays unbound and for a binding that contradicts a fixed dimension or names no input.
/// Checks the values of inputs and the states of loops in the options, too. `where` is the model's
/// file.
BoundInputs bind_inputs(const onnx::GraphProto& graph, const ImportOptions& options,
                        std::string_view where);

/// Warns where the model's outputs have other extents than its symbols say: an input that tells
/// lengths, as a mask does, is then too short or too long. `shape_of` is what inference found of an
/// output, nullopt where it found nothing.
void warn_of_contradicted_outputs(
    const onnx::GraphProto& graph, const BoundInputs& bound,
    const std::function<std::optional<Shape>(const std::string& output)>& shape_of);

}  // namespace autopar::graph
