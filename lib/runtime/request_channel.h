#pragma once

#include <optional>

#include "runtime/comm/communicator.h"
#include "runtime/named_tensors.h"

/// How the process with rank 0 hands the inputs of a run to the others, which do not know when it
/// comes. Rank 0 calls send_request(), and all other ranks of the world wait_for_request().
namespace autopar::runtime {

/// The inputs of the next run; null: there is none any more.
void send_request(const NamedTensors* inputs, HostCommunicator& world);

/// Waits as long as it takes. Throws where a rank fails meanwhile. nullopt: there is no more.
std::optional<NamedTensors> wait_for_request(HostCommunicator& world);

}  // namespace autopar::runtime
