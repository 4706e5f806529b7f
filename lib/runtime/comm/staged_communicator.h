#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// The world of `host` on a device's memory: what is sent is copied to the host, and what is
/// received is copied back. Calls wait for all that the device has to do, and for the other ranks.
/// Where the device shares the host's memory nothing is copied. Device and host outlive it.
std::unique_ptr<DeviceCommunicator> make_staged_communicator(Device& device,
                                                             HostCommunicator& host);
/// The same for a device that shares the host's memory, as the CPU does.
std::unique_ptr<DeviceCommunicator> make_shared_memory_communicator(HostCommunicator& host);

}  // namespace autopar::runtime
