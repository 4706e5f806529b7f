#pragma once

#include <cstdint>

#include "runtime/comm/device_communicator.h"
#include "runtime/comm/host_communicator.h"

/// What the plugin 'nccl' exports: make_nccl_communicator (nccl_launch.h). The caller owns the
/// world.
extern "C" autopar::runtime::DeviceCommunicator* autopar_make_nccl_communicator(
    autopar::runtime::HostCommunicator* host, void* stream, std::int64_t timeout_milliseconds);
