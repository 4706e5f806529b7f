#pragma once

#include <span>
#include <vector>

#include "graph/onnx/onnx_export.h"
#include "graph/onnx/onnx_import.h"
#include "graph/tail.h"

namespace autopar::graph {

/// The end of a model, from where on only a run tells shapes: what is left when the graph before it
/// has been imported. One rank computes it whole, node by node, of what the graph and the caller
/// give (graph/onnx/onnx_interpreter.h).
struct Tail {
  /// A serialized ModelProto of the model's own nodes. The external data of its large tensors is
  /// located by their places in `tensors`.
  std::string model;
  std::vector<Tensor> tensors;
  TailSummary summary;
  std::int64_t computed_weight_bytes = 0;  ///< of weights that are more than looked up
};

/// Writes the tail as save_onnx writes a graph. Throws Error where the data of a weight is absent.
WrittenModel save_tail(const Tail& tail, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file);

/// A model up to where shapes are known before the run, and what is left, if anything is.
struct Imported {
  Graph graph;
  std::optional<Tail> tail;
  Assumptions assumed;
};

/// Reads a model as load_onnx does; but nodes of the model whose outputs have shapes that only a
/// run tells, and all that read what they make, are left to the tail. The model's outputs come
/// first among the graph's. Throws UnknownShape where the tail would be nearly all of the model.
Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options);

/// The model once for each of several options, which differ in shapes alone. All are views of the
/// same mapped files, so that what is one weight of the model is one tensor of all graphs.
std::vector<Imported> load_onnx_with_tail(const std::filesystem::path& file,
                                          std::span<const ImportOptions> each);

}  // namespace autopar::graph
