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

/// Adds all operators of a shared library (graph/operators/autopar_operator.h), or none: models,
/// plans and runs of this process know them from then on, for good. Throws Error where the library
/// cannot be loaded, has no entry function, is for another version of the interface, or where an
/// operator's definition is wrong or there is one of its name already. Not to be called while other
/// threads read or run models.
void load_operators(const std::filesystem::path& library);

/// The same for what a library's entry function gives; `where` is for messages.
void add_operators(const AutoparLibrary& operators, const std::filesystem::path& where);
/// Adds one whose definition was checked. Unlike what loads libraries, it needs nothing of ONNX: so
/// CUDA's plugin can have a copy of the list's functions without ONNX's registries.
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
