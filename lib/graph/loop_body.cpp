#include "graph/loop_body.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::graph {
Graph body_to_run(const Node& loop, std::span<const Tensor* const> constants) {
  const LoopBody& body = *loop.body;
  require(loop.inputs.size() == loop_first_carried + body.carried + body.captured(),
          "a loop has an input for each that its body carries or captures");
  Graph run = body.graph;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const ValueId inner = run.inputs[i];
    const bool is_captured = i >= body_first_carried + body.carried;
    const Tensor* constant =
        is_captured ? constants[i - body_first_carried + loop_first_carried] : nullptr;
    if (constant != nullptr) {
      run.value(inner).constant = *constant;
      continue;
    }
    inputs.push_back(inner);
    if (is_captured && std::ranges::find(run.outputs, inner) == run.outputs.end())
      run.outputs.push_back(inner);
  }
  run.inputs = std::move(inputs);
  for (std::size_t i = 0; i < body.carried; ++i)
    run.states.push_back({1 + i, body_first_carried + i});
  return run;
}

Graph body_to_run(const Graph& outer, const Node& loop) {
  std::vector<const Tensor*> constants;
  for (const ValueId id : loop.inputs)
    constants.push_back(outer.is_constant(id) ? &*outer.value(id).constant : nullptr);
  return body_to_run(loop, constants);
}

ExpectedRounds expected_rounds(const Graph& outer, const Node& loop) {
  // A longer one is no count but the absence of one: exporters write the greatest integer.
  constexpr std::int64_t most_counted_rounds = 1000000;
  const ValueId trips = loop.inputs[loop_trip_count];
  if (trips == no_value || !outer.is_constant(trips) || !outer.value(trips).constant->has_data())
    return {assumed_rounds, false};
  const std::int64_t count = outer.value(trips).constant->to_int64s().at(0);
  if (count > most_counted_rounds) return {assumed_rounds, false};
  return {std::max<std::int64_t>(count, 0), true};
}

}  // namespace autopar::graph
