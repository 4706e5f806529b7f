#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace autopar::runtime {

/// [begin, end) in memory; empty ranges overlap nothing.
struct ByteRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

/// What one step touches.
struct StepAccess {
  std::vector<ByteRange> reads;
  std::vector<ByteRange> writes;
  Queue queue = Queue::computation;
};

/// Inputs are read; outputs and scratch memory are written.
StepAccess access_of(const Step& step);

struct ScheduledStep {
  Queue queue = Queue::computation;
  /// The steps of other queues that must be complete before this one starts, the last first. One of
  /// a queue is enough: the last, since those before it are complete then, too.
  std::vector<std::size_t> waits_for;
  /// Whether a step of another queue waits for this one.
  bool signals = false;
};

/// Each queue takes its steps in the order given. Steps that touch the same bytes, one of them
/// writing, run in that order; a wait that is not needed for this, since queues have waited for as
/// much before, is left out.
std::vector<ScheduledStep> schedule(std::span<const StepAccess> steps);

}  // namespace autopar::runtime
