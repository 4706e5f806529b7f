#pragma once

#include <memory>
#include <optional>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// A communicator for the host's memory. Each call waits at most for the communicator's timeout and
/// then throws Error naming the collective and, where it is known, the rank that did not come; so
/// do the other members.
///
/// While one thread is in a collective, another one may send and a third receive, on the same
/// communicator or on a subgroup of it.
class HostCommunicator : public Communicator {
 public:
  /// The communicator of a subgroup, given as ranks of this communicator in group order; every
  /// member of the subgroup calls it, in the same order of subgroups; others need not.
  virtual std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) = 0;

  virtual void barrier() = 0;
  /// A barrier with a timeout of its own, for ranks that may be busy with something long, such as
  /// reading their weights. One that fails or dies meanwhile ends it no later than others.
  virtual void barrier(std::chrono::milliseconds timeout) = 0;

  /// Tells the other members how far this rank has come, a number that never falls.
  virtual void report_progress(std::int64_t) {}
  /// What a member has reported, 0 at first; nullopt where ranks cannot see each other's reports.
  virtual std::optional<std::int64_t> progress_of(int /*rank*/) const { return std::nullopt; }
};

}  // namespace autopar::runtime
