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
  }
  return names_anything(pin, stage) ? std::optional(std::move(pin)) : std::nullopt;
}

}  // namespace autopar::search
