#include "runtime/comm/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace autopar::runtime {

namespace {

enum class Message { unfinished, handshake, stranger };

/// What has come so far: handshakes of another version may differ behind the signature.
Message kind_of(const Handshake& handshake, std::size_t received) {
  const Signature& theirs = handshake.signature;
  const Signature ours;
  if (std::memcmp(&theirs.magic, &ours.magic, std::min(received, sizeof ours.magic)) != 0)
    return Message::stranger;
  const bool is_other_version = received >= sizeof theirs && theirs != ours;
  return received == sizeof handshake || is_other_version ? Message::handshake
                                                          : Message::unfinished;
}

}  // namespace

std::optional<IncomingPeer> Listener::take_peer() {
  for (auto peer = unfinished_.begin(); peer != unfinished_.end();) {
    const auto rest = writable_bytes_of(peer->handshake).subspan(peer->received);
    const iovec place{rest.data(), rest.size()};
    const ssize_t received = peer->socket.receive({&place, 1});
    const bool has_gone = received <= 0 && received != -EAGAIN;
    if (received > 0) peer->received += static_cast<std::size_t>(received);
    const Message kind = has_gone ? Message::stranger : kind_of(peer->handshake, peer->received);
    if (kind == Message::unfinished) {
      ++peer;
      continue;
    }
    IncomingPeer taken = std::move(*peer);
    peer = unfinished_.erase(peer);
    if (kind == Message::handshake) return taken;
    stranger_ = taken.address;
  }
  return std::nullopt;
}

/// False at the deadline.
bool Listener::wait_for_input(Deadline deadline) const {
  std::vector<pollfd> waiting = {{socket_.handle(), POLLIN, 0}};
  for (const IncomingPeer& peer : unfinished_) waiting.push_back({peer.socket.handle(), POLLIN, 0});
  socket_.network().poll(waiting, deadline);
  return socket_.network().now() < deadline;
}

}  // namespace autopar::runtime
