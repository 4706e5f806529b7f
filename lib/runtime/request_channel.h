#pragma once

#include <optional>

#include "runtime/comm/communicator.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

/// How the process with rank 0 hands a run to the others, which do not know when it comes. Rank 0
/// calls send_request() or send_end(), and all other ranks of the world wait_for_request().
namespace autopar::runtime {

/// What Session::run gets.
struct RunRequest {
  NamedTensors inputs;
  RunOptions options;
};

void send_request(const NamedTensors& inputs, const RunOptions& options, HostCommunicator& world);
/// There is no run any more.
void send_end(HostCommunicator& world);

/// Waits as long as it takes. Throws where a rank fails meanwhile. nullopt: there is no more.
std::optional<RunRequest> wait_for_request(HostCommunicator& world);

}  // namespace autopar::runtime
