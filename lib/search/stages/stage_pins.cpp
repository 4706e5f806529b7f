#include "search/stages/stage_pins.h"

#include <algorithm>
#include <utility>

namespace autopar::search {

std::optional<Pin> pin_of_stage(Pin pin, const graph::Graph& whole, const graph::Graph& stage) {
  if (names_operator(pin, whole)) {
    if (names_operator(pin, stage)) return pin;
    const auto has_its_name = [&](const graph::Value& value) { return value.name == pin.name; };
    if (std::ranges::none_of(stage.values, has_its_name)) return std::nullopt;
    pin.inputs.reset();
    pin.reductions.reset();
    pin.some_inputs.clear();
    pin.some_outputs.clear();
    pin.mesh.reset();
  }
  return names_anything(pin, stage) ? std::optional(std::move(pin)) : std::nullopt;
}

std::map<std::string, int> stages_of(const std::vector<Pin>& pins) {
  std::map<std::string, int> stages;
  for (const Pin& pin : pins)
    if (pin.in_stage) stages[pin.name] = *pin.in_stage;
  return stages;
}

LayerCuts with_pinned_cuts(LayerCuts cuts, const std::vector<Pin>& pins, const graph::Graph& graph,
                           const graph::StageCutter& cutter) {
  const std::map<std::string, int> stages = stages_of(pins);
  const std::pair<const std::string, int>* before = nullptr;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto pinned = stages.find(graph.nodes[n].name);
    if (pinned == stages.end()) continue;
    if (before != nullptr && pinned->second < before->second)
      fail("--strategy has operator '{}' in stage {}, but '{}', which stands before it, in {}",
           pinned->first, pinned->second, before->first, before->second);
    const auto cut = static_cast<graph::NodeId>(n);
    if (before != nullptr && pinned->second > before->second) {
      if (!cutter.keeps_states(cut))
        fail(
            "--strategy begins stage {} with operator '{}', but a state's output and what reads "
            "its input are in one stage",
            pinned->second, pinned->first);
      cuts.push_back(cut);
    }
    before = &*pinned;
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

}  // namespace autopar::search
