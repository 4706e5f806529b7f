#pragma once

#include "runtime/comm/host_communicator.h"

namespace autopar::runtime {

/// The ranks of a world that run on this rank's machine and share its cores and GPUs.
struct LocalRanks {
  int rank = 0;   ///< this one's place among them
  int count = 1;  ///< with this one
};

/// Asks all others which machine they run on; every rank of the world calls it.
LocalRanks local_ranks(HostCommunicator& world);

}  // namespace autopar::runtime
