#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error_types.h"
#include "bundle/meta_info.h"
#include "graph/graph.h"

namespace autopar::program {

/// Something is computed across the batch. `reason` is what the message says but for its options.
struct NoSuchCut : Error {
  NoSuchCut(const std::string& why, const std::string& advice)
      : Error("--microbatches: " + why + "; " + advice), reason(why) {}
  std::string reason;
};

/// A model cut along its batch.
struct SplitBatch {
  graph::Graph microbatch;                         ///< the model for one of the microbatches
  std::map<std::string, bundle::BatchInfo> ports;  ///< inputs and outputs that are cut, by name
};

/// Where a model's batch is: the inputs that have it, each in some dimension.
struct BatchInputs {
  std::vector<std::pair<graph::ValueId, int>> dims;  ///< the first one is what was asked for
  std::int64_t rows = 0;
};

/// Finds the batch. `named` are inputs that have it, "x" in the first dimension or "x=1" in the
/// second; by default it is in the first dimension of the first input that has one, or, where
/// something is computed across that, in the next one. From there it follows each operator's
/// sharding rule forward and, where an operator needs another input cut along with the one that has
/// the batch, back to that: an LSTM's initial state has it in its second dimension. Without names,
/// inputs that are read apart from these and have as many rows are cut as well where that is
/// possible. Throws Error, naming the operator, where something is computed across the batch.
BatchInputs find_batch(const graph::Graph& graph, const std::vector<std::string>& named = {});
/// Throws Error, all at once, for what names none of these inputs.
void check_batch_names(const std::vector<std::string>& named,
                       const std::vector<std::string>& inputs);

/// Cuts the model into as many equal microbatches, along the batch of these inputs. The cut follows
/// each operator's sharding rule, as a mesh axis would that all operators are split over and that
/// needs no collective; so it is proven that the microbatches' results, put together, are the
/// model's. Throws Error, naming the operator, where there is no such cut, and where the batch is
/// no multiple.
SplitBatch split_batch(const graph::Graph& graph, int microbatches, const BatchInputs& batch);

/// Whether `other`, the same model for a batch of `other_batch` rows, is `graph`, for `batch` rows,
/// but for shapes: no number that they compute with follows from the batch's size.
bool differ_in_batch_alone(const graph::Graph& graph, const graph::Graph& other, std::int64_t batch,
                           std::int64_t other_batch);

}  // namespace autopar::program
