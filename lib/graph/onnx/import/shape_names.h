#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// Inputs of a model, in its order.
using ModelInputs = std::vector<const onnx::ValueInfoProto*>;

/// A shape that an option gives to an input, by its name or by a glob.
struct GivenShape {
  std::string option;  ///< "past.*=1x4", as it was given
  Shape shape;
};

/// What `--shape` gives, by what the names in it are.
struct GivenExtents {
  std::map<std::string, GivenShape> inputs;  ///< by name
  std::map<std::string, std::int64_t> symbols;
  ShapeBindings unknown;  ///< of names that are nothing of the model
};

/// The symbols in the inputs' shapes, each once: as they stand there, and what they are sums of.
std::vector<std::string> symbols_of(const ModelInputs& inputs);

/// Sorts bindings into those of inputs, of symbols, and globs over inputs, in this order: a name is
/// what it can be first, and an input's own binding wins over a glob. What is wrong goes to
/// `problems`: names that are nothing of the model, with what is nearest to them; symbols that get
/// no single extent; globs that give one input two shapes. `where` is the model's file.
GivenExtents sort_bindings(const ModelInputs& inputs, const ShapeBindings& bindings,
                           std::string_view where, Problems& problems);

}  // namespace autopar::graph
