#pragma once

#include <cstdint>

#include "runtime/comm/host_communicator.h"

/// What the plugin 'mpi' exports: make_mpi_communicator (mpi_launch.h). The caller owns the world.
extern "C" autopar::runtime::HostCommunicator* autopar_make_mpi_communicator(
    std::int64_t timeout_milliseconds);
