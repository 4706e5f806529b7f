#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/onnx/tail_file.h"
#include "planner/planner.h"

namespace autopar::planner {

/// The model with one binding of its symbolic dimensions.
struct LoadedProfile {
  std::string binding{};  ///< "sequence=128": what tells it from the others; empty of the only one
  double weight = 1;      ///< how often it runs, in the objective of the search
  graph::Graph graph;     ///< its states among it
  std::optional<graph::Tail> tail{};
  graph::Assumptions assumed{};
};

/// What Model holds.
struct LoadedModel {
  ModelOptions options;
  /// At least one. Their weights are views of the same files, and tensors of one name, type, shape
  /// and data are one weight.
  std::vector<LoadedProfile> profiles;
};

/// What was assumed in all profiles alike, and of each what is assumed in it alone.
graph::Assumptions assumed_by_all(const std::vector<LoadedProfile>& profiles);

/// While it lives, somebody is told how far this thread's work is.
class Shown {
 public:
  /// Tells what begins, where somebody is to be told.
  Shown(const Progress& progress, const std::string& what)
      : listener_(progress ? progress(what) : nullptr), scope_(listener_.get()) {}

 private:
  std::shared_ptr<ProgressListener> listener_;
  ProgressScope scope_;
};

/// Reads what an option says, NAME=FILE.npy or NAME=FILE.pb.
std::pair<std::string, graph::Tensor> load_named_tensor(std::string_view option,
                                                        const std::string& text);

/// The values that the options give inputs for good, by name.
std::map<std::string, graph::Tensor> constants_of(const ModelOptions& options);

/// How any model is read for planning and for runs alike: what is folded, and what stays.
graph::ImportOptions common_import_options();
/// What is done with a graph that was read: forms that split better.
void prepare_for_splits(graph::Graph& graph);

/// The graph and the tail of one profile; constants are folded by the CPU's kernels.
graph::Imported load_graph(const ModelOptions& options);

/// Throws all that is wrong with the names and shapes in the options, as far as the model's file
/// tells by itself.
void check_names(const ModelOptions& options, const PlanOptions& plan);

}  // namespace autopar::planner
