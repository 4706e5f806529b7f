#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx_import.h"

namespace autopar::graph {

/// The inputs that a caller of the model gives: those that are not initializers, which older files
/// list as inputs as well.
std::vector<const onnx::ValueInfoProto*> free_inputs(const onnx::GraphProto& graph);

/// A static shape for every free input: its own dimensions, symbols bound by `--shape`. One symbol
/// has one extent in all inputs. Throws Error for a symbol that stays unbound and for a binding
/// that contradicts the model, another binding, or names no input. `where` is the model's file.
std::map<std::string, Shape> bind_input_shapes(const onnx::GraphProto& graph,
                                               const ShapeBindings& bindings,
                                               std::string_view where);

}  // namespace autopar::graph
