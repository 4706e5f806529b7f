#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace autopar::runtime {

/// What a device may do at the same time: each queue runs its steps one after the other. What comes
/// from the pipeline stage before has a queue of its own, and so has what goes to the next one, so
/// that both overlap with the work between.
enum class Queue { computation, communication, receive, send };
inline constexpr std::size_t num_queues = 4;

/// When one step of a profiled run was at work.
struct Span {
  Queue queue = Queue::computation;
  std::string node;
  std::string op_type;
  /// Since the system clock's epoch, so that ranks have one time; within a rank, steps are as far
  /// apart as a clock tells that is never set.
  std::chrono::nanoseconds begin{};
  std::chrono::nanoseconds duration{};
  std::optional<std::int64_t> bytes;  ///< of payload; for collectives alone
  int microbatch = 0;
};

}  // namespace autopar::runtime
