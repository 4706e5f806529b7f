#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx/import_with_tail.h"
#include "graph/onnx/input_shapes.h"
#include "graph/onnx/node_importer.h"
#include "graph/onnx/tail_nodes.h"

namespace autopar::graph {

/// What becomes of a node whose outputs have shapes that only a run tells.
enum class OfUnknownShape {
  refused,  ///< as an error
  left,     ///< to the tail
};

/// A function of the model has such a node in it: only nodes of the model's own graph are left.
struct FunctionHidesTail {};

/// Makes a graph of a model: its inputs, weights and nodes, its outputs, and what is left to the
/// tail.
class ModelImporter {
 public:
  /// File and options must outlive this.
  ModelImporter(ModelFile& file, const ImportOptions& options, OfUnknownShape unknown,
                Folding folding);

  Imported run();
  /// The model's outputs by name, where everything folds.
  std::map<std::string, Tensor> interpret();

 private:
  void walk(Scope& scope);
  BoundInputs add_inputs(const onnx::GraphProto& proto, Scope& scope);
  void add_input(const onnx::ValueInfoProto& input, const Shape& shape, Scope& scope);
  void interpret_node(const onnx::NodeProto& node, Scope& scope);
  /// Imports a node of the model's own graph, or leaves it to the tail.
  void import_or_leave(const onnx::NodeProto& node, Scope& scope);
  /// What the tail reads that is made before it; values that it reads become outputs, unless they
  /// are inputs, constants or outputs already.
  TailReads reads_of_tail(const Scope& scope,
                          std::vector<std::pair<std::string, ValueId>>& outputs) const;

  ModelFile& file_;
  const ImportOptions& options_;
  OfUnknownShape unknown_;
  Folding folding_;
  std::string where_;
  NodeImporter nodes_;
  TailNodes tail_;
};

/// What all that reads or computes models needs ONNX's library to know.
void register_schemas();

}  // namespace autopar::graph
