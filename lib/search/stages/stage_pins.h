#pragma once

#include <optional>

#include "graph/graph.h"
#include "search/pins.h"

namespace autopar::search {

/// A pin of the model `whole` as its `stage` has it: none where it names nothing there. One that is
/// for operators in the whole model is not for tensors where a stage has none of these, but for the
/// one of exactly its name.
std::optional<Pin> pin_of_stage(Pin pin, const graph::Graph& whole, const graph::Graph& stage);

}  // namespace autopar::search
