#pragma once

#include <map>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "graph/graph.h"

namespace autopar::partition {

/// A model cut along its batch.
struct SplitBatch {
  graph::Graph microbatch;                         ///< the model for one of the microbatches
  std::map<std::string, bundle::BatchInfo> ports;  ///< inputs and outputs that are cut, by name
};

/// Cuts the model into as many equal microbatches, along the first dimension of the inputs named in
/// `batched`: by default of all whose first dimension has the extent that the first one's has.
/// From there the cut follows each operator's sharding rule, as a mesh axis would that all
/// operators are split over and that needs no collective; so it is proven that the microbatches'
/// results, put together, are the model's. Throws Error, naming the operator, where there is no
/// such cut (something is computed across the batch), and where the batch is no multiple.
SplitBatch split_batch(const graph::Graph& graph, int microbatches,
                       const std::vector<std::string>& batched = {});

/// The inputs that are cut. Throws Error where a name is no input, or names differ in their rows.
std::vector<graph::ValueId> batched_inputs(const graph::Graph& graph,
                                           const std::vector<std::string>& batched);

/// Whether `other`, the same model for a batch of `other_batch` rows, is `graph`, for `batch` rows,
/// but for shapes: no number that they compute with follows from the batch's size.
bool differ_in_batch_alone(const graph::Graph& graph, const graph::Graph& other, std::int64_t batch,
                           std::int64_t other_batch);

}  // namespace autopar::partition
