#include "runtime/rank_run.h"

#include "base/stopwatch.h"
#include "runtime/comm/thread_communicator.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Tensor;

Executable compile(const Graph& graph, const Pipeline& pipeline, Device& device,
                   CollectiveContext& collectives) {
  collectives.enter_stage(pipeline.stages, &device);
  return {graph,
          {.collectives = &collectives,
           .device = &device,
           .microbatches = pipeline.microbatches,
           .common_inputs = pipeline.common_inputs}};
}

}  // namespace

RankRun::RankRun(const Graph& graph, const DeviceOptions& device, HostCommunicator& host,
                 const LocalRanks& local, std::chrono::milliseconds timeout,
                 const Pipeline& pipeline)
    : host_(host),
      device_(device, host, local, timeout),
      collectives_(device_.world(), host, timeout),
      microbatches_(pipeline.microbatches),
      executable_(compile(graph, pipeline, device_.device(), collectives_)),
      weight_bytes_(graph::constant_bytes(graph)) {
  for (const auto id : graph.inputs) input_names_.push_back(graph.value(id).name);
}

void RankRun::write_inputs(const InputParts& parts) {
  for (std::size_t i = 0; i < input_names_.size(); ++i) {
    const auto found = parts.find(input_names_[i]);
    if (found == parts.end()) continue;
    const std::vector<Tensor>& of_input = found->second;
    const std::byte* written = nullptr;
    for (int m = 0; m < microbatches_; ++m) {
      const std::byte* place = executable_.input(i, m).data;
      if (m > 0 && place == written) continue;
      executable_.write_input(i, of_input[static_cast<std::size_t>(m) % of_input.size()], m);
      written = place;
    }
  }
}

RankRun::Seconds RankRun::run(const std::optional<StateRows>& states) {
  host_.barrier();
  const Stopwatch watch;
  executable_.run();
  if (states) hand_on_states(*states);
  host_.barrier();
  return {.host = watch.seconds(), .device = executable_.device_seconds()};
}

void RankRun::hand_on_states(const StateRows& rows) {
  executable_.hand_on_states(rows.first_row, rows.step);
}

std::vector<Span> RankRun::profile() {
  host_.barrier();
  std::vector<Span> spans = executable_.profile();
  host_.barrier();
  return spans;
}

std::int64_t RankRun::peak_bytes() const {
  return weight_bytes_ + executable_.derived_constant_bytes() + executable_.arena_bytes() -
         executable_.scratch_bytes();
}

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
    outputs.emplace(graph.value(graph.outputs[i]).name, run.executable().read_output(i));
  return outputs;
}

}  // namespace autopar::runtime
