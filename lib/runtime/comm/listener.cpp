#include "runtime/comm/listener.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace autopar::runtime {

namespace {

enum class Message { unfinished, handshake, stranger };

/// What has come so far: handshakes of another version may differ behind the signature.
Message kind_of(const Handshake& handshake, std::size_t received) {
  const auto& magic = handshake.signature.magic;
  const auto of_magic = static_cast<std::ptrdiff_t>(std::min(received, magic.size()));
  const Signature ours;
  if (!std::equal(magic.begin(), magic.begin() + of_magic, ours.magic.begin())) {
    return Message::stranger;
  }
  const bool is_other_version =
      received >= sizeof handshake.signature && handshake.signature != ours;
  return received == sizeof handshake || is_other_version ? Message::handshake
                                                          : Message::unfinished;
}

}  // namespace

std::optional<IncomingPeer> Listener::next(Deadline deadline) {
  do {
    accept_waiting();
    if (auto peer = take_peer()) return peer;
  } while (wait_for_input(deadline));
  return std::nullopt;
}

void Listener::accept_waiting() {
  for (Socket socket = accept_from(socket_); socket.is_open(); socket = accept_from(socket_)) {
    std::string address = to_string(peer_address(socket));
    unfinished_.push_back({{std::move(socket), {}, std::move(address)}, 0});
  }
}

std::optional<IncomingPeer> Listener::take_peer() {
  for (auto unfinished = unfinished_.begin(); unfinished != unfinished_.end();) {
    IncomingPeer& peer = unfinished->peer;
    const auto rest = writable_bytes_of(peer.handshake).subspan(unfinished->received);
    const ssize_t received = recv(peer.socket.descriptor(), rest.data(), rest.size(), 0);
    const bool has_gone = received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
    if (received > 0) unfinished->received += static_cast<std::size_t>(received);
    const Message kind =
        has_gone ? Message::stranger : kind_of(peer.handshake, unfinished->received);
    if (kind == Message::unfinished) {
      ++unfinished;
      continue;
    }
    IncomingPeer taken = std::move(peer);
    unfinished = unfinished_.erase(unfinished);
    if (kind == Message::handshake) return taken;
    stranger_ = taken.address;
  }
  return std::nullopt;
}

/// False at the deadline.
bool Listener::wait_for_input(Deadline deadline) const {
  std::vector<pollfd> waiting = {{socket_.descriptor(), POLLIN, 0}};
  for (const Unfinished& unfinished : unfinished_) {
    waiting.push_back({unfinished.peer.socket.descriptor(), POLLIN, 0});
  }
  poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace autopar::runtime
