#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graph/onnx/onnx_export.h"
#include "graph/tensor.h"

namespace autopar::graph {

/// A model's output, whoever makes it.
struct ModelOutput {
  std::string name;
  DataType type = DataType::undefined;
  /// Extents, so far as they are known before a run; nullopt where it is not even known how many.
  std::optional<std::vector<std::optional<std::int64_t>>> dims;
};

/// "?x4"; "of any shape" where nothing is known.
std::string dims_text(const ModelOutput& output);

/// What a tail reads and makes, and how much of the model it is.
struct TailSummary {
  std::vector<std::string> inputs;         ///< inputs or outputs of the graph before it
  std::vector<ModelOutput> outputs;        ///< that the tail makes
  std::vector<std::string> model_outputs;  ///< the model's, in order: the graph's and the tail's
  std::int64_t nodes = 0;
  std::string first_node;  ///< the first whose shapes are not known, to name it
  std::string reason;      ///< why they are not
  std::int64_t weight_bytes = 0;
  double weight_share = 0;  ///< of all weights of the model that are more than looked up
  /// At least, as a share of the model's arithmetic: extents that only a run tells are counted
  /// as 1.
  double work_share = 0;
};

/// The end of a model, from where on only a run tells shapes: what is left when the graph before it
/// has been imported. One rank computes it whole, node by node, of what the graph and the caller
/// give (graph/onnx_interpreter.h).
struct Tail {
  /// A serialized ModelProto of the model's own nodes. The external data of its large tensors is
  /// located by their places in `tensors`.
  std::string model;
  std::vector<Tensor> tensors;
  TailSummary summary;
  std::int64_t computed_weight_bytes = 0;  ///< of weights that are more than looked up
};

/// As save_onnx writes a graph. Throws Error where the data of a weight is absent.
WrittenModel save_tail(const Tail& tail, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file);

}  // namespace autopar::graph
