#pragma once

#include <chrono>
#include <memory>

#include "runtime/comm/ranks.h"
#include "runtime/device.h"
#include "runtime/session_options.h"

namespace autopar::runtime {

/// The CPU's threads for one rank of so many on its machine.
int threads_of(const DeviceOptions& options, const LocalRanks& local);

/// Binds the calling thread to LocalRanks::cores_of_node where the rank will run on the CPU, as
/// RankDevice does: called before files are read, so that their pages, too, lie there.
void bind_reader(const DeviceOptions& options, const LocalRanks& local);

/// What one rank runs on, and the communicator of the memory there.
class RankDevice {
 public:
  /// Every rank of `host` calls it, in the thread that will run the rank; `host` outlives it.
  /// Throws Error where there is no such GPU, or too few, or a part of autopar or a library is
  /// missing.
  RankDevice(const DeviceOptions& options, HostCommunicator& host, const LocalRanks& local,
             std::chrono::milliseconds timeout);

  Device& device() { return *device_; }
  DeviceCommunicator& world() { return *world_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceCommunicator> world_;
};

}  // namespace autopar::runtime
