#include "runtime/run_whole.h"

#include "runtime/comm/thread_communicator.h"
#include "runtime/rank_run.h"

namespace autopar::runtime {

NamedTensors run_whole(const graph::Graph& graph, const NamedTensors& inputs,
                       const DeviceOptions& device) {
  const auto timeout = LaunchOptions{}.timeout;
  const auto world = make_thread_communicators(1, timeout);
  RankRun run(graph, device, *world.front(), {}, timeout);
  InputParts parts;
  for (const auto& [name, tensor] : inputs) parts[name] = {tensor.contiguous_copy()};
  run.write_inputs(parts);
  run.run();
  NamedTensors outputs;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    outputs.emplace(graph.value(graph.outputs[i]).name, run.output(i));
  return outputs;
}

}  // namespace autopar::runtime
