#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// A communicator for a device's memory, which kernels call: one thread alone, unless the device
/// shares the host's memory.
class DeviceCommunicator : public Communicator {
 public:
  /// See HostCommunicator::subgroup; NCCL's is called by all ranks at once.
  virtual std::unique_ptr<DeviceCommunicator> subgroup(std::span<const int> ranks) = 0;

  /// Whether a call waits, on the host, for the device and for the other ranks, instead of joining
  /// a queue of the device.
  virtual bool waits_on_host() const { return false; }
  /// Whether calls join a queue of the device, those of one communicator one after another.
  virtual bool joins_queue() const { return false; }
  /// Replaces the queue (Device::queue) that it was made with.
  virtual void join_queue(void* /*queue*/) {}

  /// Collectives between the two, in this thread and of any communicators of the same kind, may go
  /// out as one; none has to be under way before end_group().
  virtual void begin_group() {}
  virtual void end_group() {}
};

}  // namespace autopar::runtime
