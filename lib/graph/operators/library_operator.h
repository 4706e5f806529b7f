#pragma once

#include "graph/onnx/infer_node.h"
#include "graph/operators/autopar_operator.h"

/// Operators of shared libraries (autopar_operator.h). Like ONNX's registry of schemas, which they
/// join, there is one list of them a process, to which libraries are added before models are read.
namespace autopar::graph {

/// A library's operator does what it must not, such as to write behind its outputs. No Error: one
/// that tries out an operator may pass over what the operator refuses, but never over this.
struct OperatorFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LibraryOperator {
  std::filesystem::path library;
  const AutoparOperator* definition = nullptr;

  /// "com.example::Scale".
  std::string name() const;
  bool may_be_split() const { return (definition->flags & AUTOPAR_RUNS_WHOLE) == 0; }
};

/// load_operators.h checks what is added, and tells ONNX of it.
void add_library_operator(LibraryOperator op);

/// Null where no library has it. Holds for good.
const LibraryOperator* find_library_operator(std::string_view domain, std::string_view op_type);

/// Types and shapes of a node's outputs by its library. `inputs` has null for those that are left
/// out. Throws Error with the library's reason where it refuses the node, and OperatorFault where
/// what it tells is no shape.
std::vector<OutputType> infer_by_library(const LibraryOperator& op,
                                         const std::map<std::string, Attribute>& attributes,
                                         const std::vector<const Value*>& inputs,
                                         std::size_t num_outputs);

}  // namespace autopar::graph
