#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/listener.h"

namespace autopar::runtime {

/// How one rank finds the others: rank 0 listens at `meeting_point`, the others connect there.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  Endpoint meeting_point;
  /// Up to 16 letters that all ranks must have in common: a digest of the bundle that they run.
  std::string bundle_digest;
  /// What ranks prove to each other that they know.
  std::string secret;
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// Once all have met; the same if absent.
  std::optional<std::chrono::milliseconds> run_timeout = {};
  Network* network = &system_network();
};

/// What a rank knows once all have met.
struct Meeting {
  std::shared_ptr<const Introduction> self;
  Listener listener;                     ///< where the others connect to this rank
  std::vector<SocketAddress> addresses;  ///< where the ranks listen
  /// Rank 0 has a connection from each other rank, by rank; the others have one to rank 0.
  std::vector<Socket> connections;
};

/// Waits until all ranks have come to rank 0. Each has proven that it knows the secret, and so has
/// rank 0. Messages are C++ objects' bytes, so all machines must be of one architecture. Throws
/// Error on every rank that can be told: a host that is not known, a port in use, nobody or a
/// stranger at the meeting point, a rank that does not come within the timeout or leaves meanwhile,
/// a rank given twice, ranks of another number of ranks or of another bundle. Who cannot prove that
/// it is a rank, or is of another version, is turned away, and told of where a rank is missing.
Meeting meet(const Rendezvous& rendezvous);

/// Rank 0's word to one that came when all were there.
void refuse_late(const IncomingPeer& peer);

}  // namespace autopar::runtime
