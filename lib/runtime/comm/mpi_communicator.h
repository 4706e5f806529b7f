#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"

/// What the plugin 'mpi' exports: make_mpi_communicator (mpi_launch.h). The caller owns the world.
extern "C" autopar::runtime::Communicator* autopar_make_mpi_communicator(
    std::int64_t timeout_milliseconds);
