#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/session_options.h"

namespace autopar::runtime {

/// Which dimension of a model's inputs and outputs is its batch, by name. Each output has it; an
/// input that is missing here is one for all rows.
struct BatchDims {
  std::map<std::string, int> inputs;
  std::map<std::string, int> outputs;

  bool operator==(const BatchDims&) const = default;
};

/// Where the batch is in inputs of these shapes, whose batch may have any size, after a proof that
/// no row of it touches another. Throws Error that names what there is no proof for. The runtime
/// knows nothing of how models are split, so that a caller hands it in.
using RowProof = std::function<BatchDims(const InputShapes& inputs)>;

}  // namespace autopar::runtime
