#pragma once

#include <cstddef>
#include <optional>
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
  bool is_collective = false;
};

/// Inputs are read; outputs and scratch memory are written.
StepAccess access_of(const Step& step);

struct ScheduledStep {
  Queue queue = Queue::computation;
  /// The step of the other queue that must be complete before this one starts. One is enough: the
  /// last, since those before it in its queue are complete then, too.
  std::optional<std::size_t> waits_for;
  /// Whether a step of the other queue waits for this one.
  bool signals = false;
};

/// Collectives go into one queue and the rest into the other, each in the order given. Steps that
/// touch the same bytes, one of them writing, run in that order; a wait that is not needed for
/// this, since the queue has waited for as much before, is left out.
std::vector<ScheduledStep> schedule(std::span<const StepAccess> steps);

}  // namespace autopar::runtime
