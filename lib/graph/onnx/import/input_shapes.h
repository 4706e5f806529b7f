#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <optional>

#include "graph/onnx/import/shape_names.h"
#include "graph/onnx/import/symbols.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// The inputs that a caller of the model gives: those that are not initializers, which older files
/// list as inputs as well.
ModelInputs free_inputs(const onnx::GraphProto& graph);

/// Some exporters write -1 for what they do not know; 0 is an empty dimension.
bool is_fixed(const onnx::TensorShapeProto::Dimension& dim);

/// Static shapes of inputs, and what symbols stand for in them.
struct BoundInputs {
  std::map<std::string, Shape> shapes = {};  ///< by name
  Symbols symbols = {};
  Assumptions assumed = {};
  bool are_of_tensors = false;  ///< see ImportOptions::shapes_are_of_tensors
};

/// What the options say of shapes: of the inputs that they name or whose symbols they bind; and
/// what is to be assumed of the others. Where bindings contradict each other (one symbol with two
/// extents), they hold as they are, since other runtimes take them, with a warning. Throws Error,
/// all that is wrong at once: for a binding that contradicts a fixed dimension or is of nothing in
/// the model, an input without a shape that is given none, and names of values and loops that the
/// model does not have. `where` is the model's file.
BoundInputs bind_inputs(const onnx::GraphProto& graph, const ImportOptions& options,
                        std::string_view where);

/// The shapes of all free inputs: those that are bound, and the others as `assumed` says.
BoundInputs with_assumed(const onnx::GraphProto& graph, const BoundInputs& given,
                         const Assumptions& assumed);

/// An output's dimension whose symbol has another extent in the inputs: one that tells lengths, as
/// a mask does, is then too short or too long.
struct ContradictedOutput {
  std::string output;
  int dimension = 0;
  std::int64_t extent = 0;  ///< that it comes out with
  std::string symbol;
  Symbols::Binding binding;  ///< of the symbol
};

/// Each symbol once. `shape_of` is what inference found of an output, nullopt where it found
/// nothing.
std::vector<ContradictedOutput> contradicted_outputs(
    const onnx::GraphProto& graph, const BoundInputs& bound,
    const std::function<std::optional<Shape>(const std::string& output)>& shape_of);

/// Warns of what the options contradict: outputs, and inputs that are declared as a sum of symbols.
void warn_of_contradictions(const onnx::GraphProto& graph, const BoundInputs& bound,
                            const std::vector<ContradictedOutput>& outputs);

/// Throws the Error for a model that refuses, for the reason, what was assumed of its inputs.
[[noreturn]] void refuse_assumed(const onnx::GraphProto& graph, const BoundInputs& given,
                                 const Assumptions& assumed, const Error& reason,
                                 const std::string& where);

}  // namespace autopar::graph
