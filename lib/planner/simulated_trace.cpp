#include "planner/simulated_trace.h"

#include <utility>

#include "planner/find_plan.h"
#include "planner/summary.h"
#include "program/simulation.h"
#include "runtime/trace.h"

namespace autopar::planner {

namespace {

using program::SimulatedStep;
using runtime::Queue;

/// By SimulatedStep::Lane.
constexpr Queue queues[] = {Queue::computation, Queue::communication, Queue::receive, Queue::send};

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

runtime::Span span_of(SimulatedStep step) {
  runtime::Span span;
  span.queue = queues[static_cast<std::size_t>(step.lane)];
  span.node = std::move(step.node);
  span.op_type = std::move(step.op_type);
  span.begin = nanoseconds(step.begin_seconds);
  span.duration = nanoseconds(step.begin_seconds + step.seconds) - span.begin;
  span.bytes = step.bytes;
  span.microbatch = step.microbatch;
  return span;
}

/// All ranks; where there are more than 64, the first one of each stage.
std::vector<int> told_ranks(const plan::PipelinePlan& plan) {
  constexpr int most_ranks = 64;
  std::vector<int> told;
  for (const plan::StagePlan& stage : plan.stages) {
    const int ranks = plan.num_devices() > most_ranks ? 1 : stage.num_devices();
    for (int rank = stage.first_rank; rank < stage.first_rank + ranks; ++rank) told.push_back(rank);
  }
  return told;
}

}  // namespace

std::vector<std::vector<runtime::Span>> simulated_spans(const plan::PipelinePlan& plan,
                                                        const program::PipelineProgram& program,
                                                        const cost::DeviceModel& device,
                                                        std::span<const int> ranks) {
  const program::Simulation simulation(plan, program, device);
  std::vector<std::vector<runtime::Span>> by_rank(static_cast<std::size_t>(plan.num_devices()));
  for (const int rank : ranks)
    for (SimulatedStep& step : simulation.steps(rank))
      by_rank[static_cast<std::size_t>(rank)].push_back(span_of(std::move(step)));
  return by_rank;
}

void check_trace_file(const std::filesystem::path& trace) {
  runtime::check_trace_file(trace, "--simulate");
}

void save_simulation(const Plan& plan, const std::filesystem::path& trace) {
  const FoundPlan& found = plan.contents();
  if (found.profiles.size() > 1)
    fail("--simulate {}: it plays one profile; give each --shape one value", trace.string());
  const auto& [pipeline, device] = found.profiles.front();
  const auto spans =
      simulated_spans(pipeline, program::lower(pipeline, device), device, told_ranks(pipeline));
  json_text([&] { runtime::save_trace(trace, spans, "--simulate"); });
}

}  // namespace autopar::planner
