#include "runtime/rank_run.h"

#include "base/mapped_file_checks.h"
#include "base/stopwatch.h"
#include "runtime/comm/thread_communicator.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Tensor;

CompileOptions options_of(RankContext& rank, const Pipeline& pipeline) {
  return {.collectives = &rank.collectives(),
          .device = &rank.device(),
          .microbatches = pipeline.microbatches,
          .common_inputs = pipeline.common_inputs,
          .constants = &rank.constants(),
          .states = rank.states()};
}

}  // namespace

RankRun::RankRun(const Graph& graph, RankContext& rank, const Pipeline& pipeline)
    : rank_(rank),
      microbatches_(pipeline.microbatches),
      executable_(graph, options_of(rank, pipeline)),
      weight_bytes_(graph::constant_bytes(graph)) {
  for (const auto id : graph.inputs) input_names_.push_back(graph.value(id).name);
}

RankRun::RankRun(const Graph& graph, std::unique_ptr<RankContext> rank, const Pipeline& pipeline)
    : RankRun(graph, *rank, pipeline) {
  own_rank_ = std::move(rank);
}

RankRun::RankRun(const Graph& graph, const DeviceOptions& device, HostCommunicator& host,
                 const LocalRanks& local, std::chrono::milliseconds timeout,
                 const Pipeline& pipeline)
    : RankRun(graph, std::make_unique<RankContext>(device, host, local, timeout, pipeline.stages),
              pipeline) {}

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

RankRun::Seconds RankRun::run(States states) {
  rank_.host().barrier();
  const Stopwatch watch;
  if (states != States::apart) executable_.fill_states();
  executable_.run();
  check_mapped_files();  // before other ranks take this one's part
  if (states == States::handed_on) executable_.hand_on_states();
  rank_.host().barrier();
  return {.host = watch.seconds(), .device = executable_.device_seconds()};
}

std::vector<Span> RankRun::profile() {
  rank_.host().barrier();
  std::vector<Span> spans = executable_.profile();
  rank_.host().barrier();
  return spans;
}

std::int64_t RankRun::graph_bytes() const {
  return executable_.derived_constant_bytes() + executable_.arena_bytes() -
         executable_.scratch_bytes();
}

std::int64_t RankRun::peak_bytes() const {
  const StateBuffers* states = rank_.states();
  return weight_bytes_ + graph_bytes() + (states != nullptr ? states->bytes() : 0);
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
