#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"

/// What the plugin 'nccl' exports: make_nccl_communicator (nccl_launch.h). The caller owns the
/// world.
extern "C" autopar::runtime::Communicator* autopar_make_nccl_communicator(
    autopar::runtime::Communicator* host, void* stream, std::int64_t timeout_milliseconds);
