#include "runtime/schedule.h"

#include <algorithm>
#include <array>
#include <functional>

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

/// Steps of each queue that are complete: all before this one.
using Complete = std::array<std::size_t, num_queues>;

std::size_t index_of(Queue queue) { return static_cast<std::size_t>(queue); }

}  // namespace

StepAccess access_of(const Step& step) {
  StepAccess access;
  for (const TensorView& view : step.inputs) add_range(access.reads, view.data, view.size_bytes());
  for (const TensorView& view : step.outputs)
    add_range(access.writes, view.data, view.size_bytes());
  add_range(access.writes, step.scratch, step.scratch_bytes);
  access.queue = queue_of(step);
  return access;
}

/// What is complete when a step starts is what its wait for another step tells, beside what was
/// complete when that one started. Steps that it conflicts with are looked at from the last to the
/// first, so that a wait is never implied by one that is added later.
std::vector<ScheduledStep> schedule(std::span<const StepAccess> steps) {
  std::vector<ScheduledStep> scheduled(steps.size());
  std::vector<Complete> complete_at(steps.size());  ///< by step: at its end
  std::array<Complete, num_queues> complete_in{};   ///< at the end of each queue's last step
  std::array<std::vector<std::size_t>, num_queues> in_queue;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    ScheduledStep& step = scheduled[s];
    step.queue = steps[s].queue;
    const std::size_t own = index_of(step.queue);
    Complete& known = complete_in[own];
    std::vector<std::size_t> others;  // steps of other queues, perhaps not complete, the last first
    for (std::size_t q = 0; q < num_queues; ++q)
      if (q != own)
        others.insert(others.end(), std::ranges::lower_bound(in_queue[q], known[q]),
                      in_queue[q].end());
    std::ranges::sort(others, std::greater());
    for (const std::size_t earlier : others) {
      const bool is_complete = earlier < known[index_of(steps[earlier].queue)];
      if (is_complete || !conflict(steps[earlier], steps[s])) continue;
      step.waits_for.push_back(earlier);
      scheduled[earlier].signals = true;
      for (std::size_t q = 0; q < num_queues; ++q)
        known[q] = std::max(known[q], complete_at[earlier][q]);
    }
    known[own] = s + 1;
    complete_at[s] = known;
    in_queue[own].push_back(s);
  }
  return scheduled;
}

}  // namespace autopar::runtime
