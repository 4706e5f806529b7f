#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace autopar::graph {

/// Throws Error for what is no equation of so many operands: letters, with one ellipsis a term,
/// commas between terms, and "->" with a term behind it or not at all. ONNX's inference of shapes
/// does not end on some that are none.
void check_einsum_equation(std::string_view equation, std::size_t operands);
/// The same, and that it fits operands of these shapes: each letter has one extent, or 1.
void check_einsum_equation(std::string_view equation, std::span<const Shape> operands);

/// Whether all Einsum nodes of the model, in its functions and nested graphs, too, have equations.
/// One that a function gets from its caller counts as none.
bool has_einsum_equations(const onnx::ModelProto& model);

}  // namespace autopar::graph
