#pragma once

#include <chrono>
#include <memory>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// Initialises MPI, by the plugin 'mpi', and gives the world. MPI is finalised when the world goes,
/// unless an exception unwinds it: a process that ends without finalising makes the launcher end
/// the others, where a finalisation would wait for them. MPI's errors become Error.
std::unique_ptr<HostCommunicator> make_mpi_communicator(std::chrono::milliseconds timeout);

}  // namespace autopar::runtime

/// What the plugin 'mpi' exports: make_mpi_communicator. The caller owns the world.
extern "C" autopar::runtime::HostCommunicator* autopar_make_mpi_communicator(
    std::int64_t timeout_milliseconds);
