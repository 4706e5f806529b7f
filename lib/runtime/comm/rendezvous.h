#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/socket.h"

namespace autopar::runtime {

/// How one rank finds the others: rank 0 listens at `meeting_point`, the others connect there.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  Endpoint meeting_point;
  /// Up to 16 letters that all ranks must have in common: a digest of the bundle that they run.
  std::string bundle_digest;
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// Once all are connected; the same if absent.
  std::optional<std::chrono::milliseconds> run_timeout = {};
  Network* network = &system_network();
};

/// The connections to another rank: collectives' tensors go over one, messages between the two over
/// another, and what must not wait behind them (a rank gives up, or is done) over the third. Closed
/// for the rank itself.
struct PeerSockets {
  Socket data;
  Socket messages;
  Socket control;
};

/// Waits for all ranks and connects each to each; by rank. Messages are C++ objects' bytes, so all
/// machines must be of one architecture. Throws Error on every rank that can be told: a host that
/// is not known, a port in use, nobody or a stranger at the meeting point, a rank that does not
/// come within the timeout or leaves meanwhile, a rank given twice, ranks of another number of
/// ranks, of another bundle or of another version. Strangers are turned away.
std::vector<PeerSockets> connect_all(const Rendezvous& rendezvous);

}  // namespace autopar::runtime
