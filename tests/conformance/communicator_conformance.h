#pragma once

#include "runtime/comm/communicator.h"

namespace autopar {

/// What every kind of Communicator must do, checked from one rank; all ranks of a world of 1 to 8
/// on one machine call it. Throws std::runtime_error that says what went wrong.
void check_conformance(runtime::Communicator& world);

}  // namespace autopar
