#pragma once

#include "runtime/comm/communicator.h"

namespace autopar {

/// Whose reductions they are: ours add in rank order, half types in float32; NCCL's in any order,
/// and not 16-bit integers.
enum class Reductions { ours, nccl };

/// What every kind of Communicator must do, checked from one rank; all ranks of a world of 1 to 8
/// on one machine call it. Throws std::runtime_error that says what went wrong.
void check_conformance(runtime::Communicator& world, Reductions reductions = Reductions::ours);

}  // namespace autopar
