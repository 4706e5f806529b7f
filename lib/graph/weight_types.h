#pragma once

#include "graph/data_type.h"

namespace autopar::graph {

/// Only what stands for a trained number counts as a weight: not indices, shapes and masks.
bool holds_weights(DataType type);

}  // namespace autopar::graph
