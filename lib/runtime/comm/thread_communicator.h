#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// One communicator a rank for `size` threads of this process.
std::vector<std::unique_ptr<HostCommunicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout);

}  // namespace autopar::runtime
