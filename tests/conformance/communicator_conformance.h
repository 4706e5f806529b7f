#pragma once

#include "runtime/comm/communicator.h"

namespace autopar {

/// Whose reductions they are: ours add in rank order, half types in float32; NCCL's in any order,
/// and not 16-bit integers.
enum class Reductions { ours, nccl };

/// Who calls a rank's communicator: one thread alone where it is for a device's memory.
enum class Callers { several_threads, one_thread };

/// What every kind of HostCommunicator must do, checked from one rank; all ranks of a world of 1 to
/// 8 on one machine call it. Throws std::runtime_error that says what went wrong.
void check_conformance(runtime::HostCommunicator& world, Reductions reductions = Reductions::ours,
                       Callers callers = Callers::several_threads);

/// That at a timeout nobody accuses a rank that waits for another itself; all ranks of a world of 3
/// or more call it, and none can do anything else afterwards. The world's timeout should be a few
/// seconds: ranks that a busy machine makes late come within it.
void check_blame(runtime::HostCommunicator& world);

/// That a rank which works is waited for, longer than the timeout, and one that hangs is named. All
/// ranks of a world of 3 or more call it, none can do anything else afterwards, and the world's
/// timeout should be a second or more. `collective`: before which the last rank hangs, below
/// num_collectives.
constexpr int num_collectives = 8;
void check_signs(runtime::HostCommunicator& world, int collective);

}  // namespace autopar
