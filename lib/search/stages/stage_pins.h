#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/stage_graph.h"
#include "search/pins.h"
#include "search/stages/layers.h"

namespace autopar::search {

/// A pin of the model `whole` as its `stage` has it: none where it names nothing there. One that is
/// for operators in the whole model is not for tensors where a stage has none of these, but for the
/// one of exactly its name.
std::optional<Pin> pin_of_stage(Pin pin, const graph::Graph& whole, const graph::Graph& stage);

/// By operator: the stages that pins have them in.
std::map<std::string, int> stages_of(const std::vector<Pin>& pins);

/// The cuts and those before the first operator of each stage that pins tell. Throws Error, naming
/// the operators, where the graph's order does not allow these stages.
LayerCuts with_pinned_cuts(LayerCuts cuts, const std::vector<Pin>& pins, const graph::Graph& graph,
                           const graph::StageCutter& cutter);

}  // namespace autopar::search
