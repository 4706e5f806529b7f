#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// The world of `host` on a device's memory: what is sent is copied to the host, and what is
/// received is copied back. Calls wait for all that the device has to do, and for the other ranks.
/// Device and host outlive it.
std::unique_ptr<Communicator> make_staged_communicator(Device& device, Communicator& host);

}  // namespace autopar::runtime
