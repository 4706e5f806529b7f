#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graph/onnx/tail_file.h"
#include "planner/planner.h"

namespace autopar::planner {

/// What Model holds.
struct LoadedModel {
  ModelOptions options;
  graph::Graph graph;  ///< its states among it
  std::optional<graph::Tail> tail;
  graph::Assumptions assumed{};
};

/// Tells what begins, where somebody is to be told; it has ended when the result is destroyed.
inline std::shared_ptr<void> show(const Progress& progress, const std::string& what) {
  return progress ? progress(what) : nullptr;
}

/// Reads what an option says, NAME=FILE.npy or NAME=FILE.pb.
std::pair<std::string, graph::Tensor> load_named_tensor(std::string_view option,
                                                        const std::string& text);

/// The graph and the tail; constants are folded by the CPU's kernels.
graph::Imported load_graph(const ModelOptions& options);

/// Throws all that is wrong with the names and shapes in the options, as far as the model's file
/// tells by itself.
void check_names(const ModelOptions& options, const PlanOptions& plan);

}  // namespace autopar::planner
