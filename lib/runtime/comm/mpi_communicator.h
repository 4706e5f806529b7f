#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// Whether a launcher (mpirun, srun) started this process as one rank of several, as the
/// environment tells, without initialising MPI.
bool started_by_launcher();

/// Initialises MPI (finalised when the last communicator goes) and gives the world. MPI's errors
/// become Error.
std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout);

/// Ranks of this process's machine, to share its cores; 1 without MPI.
int mpi_local_ranks(Communicator& world);

}  // namespace autopar::runtime
