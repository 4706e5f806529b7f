#pragma once

#include <filesystem>
#include <optional>

#include "graph/onnx/onnx_import.h"
#include "graph/onnx/tail_file.h"

namespace autopar::graph {

/// A model up to where shapes are known before the run, and what is left, if anything is.
struct Imported {
  Graph graph;
  std::optional<Tail> tail;
};

/// Reads a model as load_onnx does; but nodes of the model whose outputs have shapes that only a
/// run tells, and all that read what they make, are left to the tail. The model's outputs come
/// first among the graph's. Throws UnknownShape where the tail would be nearly all of the model.
Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options);

}  // namespace autopar::graph
