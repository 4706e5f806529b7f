#include "runtime/schedule.h"

#include <algorithm>

namespace autopar::runtime {
namespace {

void add_range(std::vector<ByteRange>& ranges, const std::byte* data, std::int64_t bytes) {
  if (data != nullptr && bytes > 0) ranges.push_back({data, data + bytes});
}

bool overlap(std::span<const ByteRange> some, std::span<const ByteRange> others) {
  return std::ranges::any_of(some, [&](const ByteRange& a) {
    return std::ranges::any_of(others, [&](const ByteRange& b) {
      return std::max(a.begin, b.begin) < std::min(a.end, b.end);
    });
  });
}

bool conflict(const StepAccess& a, const StepAccess& b) {
  return overlap(a.writes, b.reads) || overlap(a.reads, b.writes) || overlap(a.writes, b.writes);
}

}  // namespace

StepAccess access_of(const Step& step) {
  StepAccess access;
  for (const TensorView& view : step.inputs) add_range(access.reads, view.data, view.size_bytes());
  for (const TensorView& view : step.outputs)
    add_range(access.writes, view.data, view.size_bytes());
  add_range(access.writes, step.scratch, step.scratch_bytes);
  access.is_collective = dynamic_cast<const CollectiveKernel*>(step.kernel.get()) != nullptr;
  return access;
}

std::vector<ScheduledStep> schedule(std::span<const StepAccess> steps) {
  std::vector<ScheduledStep> scheduled(steps.size());
  // By queue: the steps of the other queue before this one are complete for all that follows.
  std::size_t complete_before[2] = {0, 0};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    ScheduledStep& step = scheduled[s];
    step.queue = steps[s].is_collective ? Queue::communication : Queue::computation;
    std::size_t& complete = complete_before[static_cast<std::size_t>(step.queue)];
    for (std::size_t earlier = s; earlier-- > complete;) {
      if (scheduled[earlier].queue == step.queue || !conflict(steps[earlier], steps[s])) continue;
      step.waits_for = earlier;
      scheduled[earlier].signals = true;
      complete = earlier + 1;
      break;
    }
  }
  return scheduled;
}

}  // namespace autopar::runtime
