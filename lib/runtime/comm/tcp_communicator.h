#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rendezvous.h"

namespace autopar::runtime {

/// One rank of a world of processes, or threads, that meet at rank 0's address: no launcher needed,
/// on one machine or several of one architecture. Returns when all ranks are connected, each to
/// each. A rank that fails or dies makes all others throw at once, with its number; one whose
/// connections carry nothing makes them throw at the timeout. A world that an exception unwinds
/// counts as failed. Throws Error as `connect_all` does.
std::unique_ptr<HostCommunicator> make_tcp_communicator(const Rendezvous& rendezvous);

}  // namespace autopar::runtime
