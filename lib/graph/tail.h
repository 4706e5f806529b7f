#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace autopar::graph
