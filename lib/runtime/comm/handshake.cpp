#include "runtime/comm/handshake.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace autopar::runtime {

namespace {

constexpr const char* listening_role = "autopar: the rank that listens";
constexpr const char* connecting_role = "autopar: the rank that connects";
constexpr const char* encryption_role = "autopar: the key of the connection";

Proof proof_of_listener(const Secret& secret, const Hello& hello, const Answer& answer) {
  return secret.prove(listening_role, {bytes_of(hello), bytes_of(answer)});
}
Proof proof_of_connector(const Secret& secret, const Hello& hello, const Answer& answer) {
  return secret.prove(connecting_role, {bytes_of(hello), bytes_of(answer)});
}

Key key_of(const Secret& secret, const Hello& hello, const Answer& answer) {
  return secret.prove(encryption_role, {bytes_of(hello), bytes_of(answer)});
}

std::uint32_t encrypts(const SmallMessages& messages) {
  return messages.socket().network().encrypts() ? 1 : 0;
}

/// What somebody's first bytes are.
enum class Speaker { unclear, rank, other_version, stranger };

Speaker speaker_of(const Signature& theirs, std::size_t received) {
  const Signature ours;
  if (std::memcmp(&theirs.magic, &ours.magic, std::min(received, sizeof ours.magic)) != 0)
    return Speaker::stranger;
  if (received < sizeof theirs) return Speaker::unclear;
  return theirs == ours ? Speaker::rank : Speaker::other_version;
}

}  // namespace

WireAddress wire_address(const SocketAddress& address) {
  WireAddress wire{.family = address.storage.ss_family};
  if (wire.family == AF_INET6) {
    const auto& from = reinterpret_cast<const sockaddr_in6&>(address.storage);
    wire.port = from.sin6_port;
    wire.scope = from.sin6_scope_id;
    std::memcpy(wire.host.data(), &from.sin6_addr, sizeof from.sin6_addr);
  } else {
    const auto& from = reinterpret_cast<const sockaddr_in&>(address.storage);
    wire.port = from.sin_port;
    std::memcpy(wire.host.data(), &from.sin_addr, sizeof from.sin_addr);
  }
  return wire;
}

SocketAddress socket_address(const WireAddress& wire) {
  SocketAddress address;
  if (wire.family == AF_INET6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(address.storage);
    to.sin6_port = wire.port;
    to.sin6_scope_id = wire.scope;
    std::memcpy(&to.sin6_addr, wire.host.data(), sizeof to.sin6_addr);
    address.length = sizeof to;
  } else if (wire.family == AF_INET) {
    auto& to = reinterpret_cast<sockaddr_in&>(address.storage);
    to.sin_port = wire.port;
    std::memcpy(&to.sin_addr, wire.host.data(), sizeof to.sin_addr);
    address.length = sizeof to;
  }
  if (address.length > 0) address.storage.ss_family = wire.family;
  return address;
}

bool SmallMessages::move(std::span<std::byte> place, std::size_t& filled) {
  while (!unsent_.empty()) {
    const iovec rest{unsent_.data(), unsent_.size()};
    const ssize_t sent = socket_.send({&rest, 1});
    if (sent == -EAGAIN) break;
    if (sent <= 0) return false;
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  while (filled < place.size()) {
    const std::span<std::byte> rest = place.subspan(filled);
    const iovec part{rest.data(), rest.size()};
    const ssize_t received = socket_.receive({&part, 1});
    if (received == -EAGAIN) break;
    if (received <= 0) return false;
    filled += static_cast<std::size_t>(received);
  }
  return true;
}

AcceptedHandshake::AcceptedHandshake(Socket socket, const Introduction& self)
    : self_(&self),
      messages_(std::move(socket)),
      address_(to_string(peer_address(messages_.socket()))),
      since_(messages_.socket().network().now()) {}

AcceptedHandshake::State AcceptedHandshake::advance() {
  if (!has_answered_) {
    const State state = hear_hello();
    if (!has_answered_) return state;
  }
  const bool is_open = messages_.move(writable_bytes_of(proof_), proven_);
  if (!has_proven_ && proven_ == sizeof proof_) {
    if (!is_same(proof_, proof_of_connector(self_->secret, hello_, answer_.answer)))
      return State::unproven;
    has_proven_ = true;
    messages_.encrypt(Side::listens, key_of(self_->secret, hello_, answer_.answer));
    messages_.send(bytes_of(welcome));
    if (!messages_.move({}, proven_)) return State::closed;
  }
  if (has_proven_ && is_open) return messages_.has_sent_all() ? State::proven : State::under_way;
  return is_open ? State::under_way : State::unproven;
}

AcceptedHandshake::State AcceptedHandshake::hear_hello() {
  const bool is_open = messages_.move(writable_bytes_of(hello_), heard_);
  const Speaker speaker = speaker_of(hello_.signature, heard_);
  if (speaker == Speaker::stranger) return State::no_rank;
  if (heard_ == sizeof hello_ || speaker == Speaker::other_version) {
    // One of another version is told ours by the signature, and one that encrypts what we do.
    answer_.answer = {.signature = {},
                      .rank = self_->rank,
                      .is_encrypted = encrypts(messages_),
                      .bundle_digest = self_->bundle_digest,
                      .nonce = draw_nonce()};
    answer_.proof = proof_of_listener(self_->secret, hello_, answer_.answer);
    messages_.send(bytes_of(answer_));
    std::size_t nothing = 0;
    if (speaker == Speaker::other_version || hello_.is_encrypted != encrypts(messages_))
      messages_.move({}, nothing);
    if (speaker == Speaker::other_version) return State::other_version;
    if (hello_.is_encrypted != encrypts(messages_))
      return hello_.is_encrypted != 0 ? State::encrypts : State::encrypts_not;
    has_answered_ = true;
    return State::under_way;
  }
  return is_open ? State::under_way : State::closed;
}

Dialing::Dialing(Network& network, const SocketAddress& address, const Introduction& self, int to,
                 Channel channel, Listen listen)
    : self_(self),
      listen_(std::move(listen)),
      hello_{.signature = {},
             .channel = channel,
             .rank = self.rank,
             .to = to,
             .size = self.size,
             .is_encrypted = network.encrypts() ? 1U : 0U,
             .meeting = self.meeting,
             .bundle_digest = self.bundle_digest,
             .listens_at = {},
             .nonce = draw_nonce()},
      messages_(Socket()) {
  const int made = network.connect(address);
  if (made < 0)
    error_ = -made;
  else
    messages_ = SmallMessages(Socket(network, made));
}

pollfd Dialing::awaited() const {
  if (is_connected_) return messages_.awaited();
  return {.fd = messages_.socket().handle(), .events = POLLOUT, .revents = 0};
}

Dialing::State Dialing::advance() {
  if (error_ != 0) return State::unreachable;
  if (!is_connected_) {
    Network& network = messages_.socket().network();
    pollfd ready = awaited();
    if (network.poll({&ready, 1}, network.now()) <= 0) return State::under_way;
    error_ = network.connect_error(messages_.socket().handle());
    if (error_ != 0) return State::unreachable;
    is_connected_ = true;
    if (listen_) hello_.listens_at = listen_(messages_.socket());
    messages_.send(bytes_of(hello_));
  }
  return hear_answer();
}

Dialing::State Dialing::hear_answer() {
  if (has_concluded_) return hear_welcome();
  const bool is_open = messages_.move(writable_bytes_of(answer_), heard_);
  const Answer& answer = answer_.answer;
  const Speaker speaker = speaker_of(answer.signature, heard_);
  if (speaker == Speaker::stranger) return State::no_rank;
  if (speaker == Speaker::other_version) return State::other_version;
  if (heard_ < sizeof answer_) return is_open ? State::under_way : State::closed;
  if (answer.rank != hello_.to ||
      !is_same(answer_.proof, proof_of_listener(self_.secret, hello_, answer)))
    return State::unproven;
  if (answer.is_encrypted != hello_.is_encrypted)
    return answer.is_encrypted != 0 ? State::encrypts : State::encrypts_not;
  has_concluded_ = true;
  is_to_encrypt_ = true;
  messages_.send(bytes_of(proof_of_connector(self_.secret, hello_, answer)));
  return hear_welcome();
}

Dialing::State Dialing::hear_welcome() {
  if (is_to_encrypt_) {
    std::size_t nothing = 0;
    if (!messages_.move({}, nothing)) return State::closed;
    if (!messages_.has_sent_all()) return State::under_way;
    messages_.encrypt(Side::connects, key_of(self_.secret, hello_, answer_.answer));
    is_to_encrypt_ = false;
  }
  const bool is_open = messages_.move(writable_bytes_of(welcome_), welcomed_);
  if (welcomed_ == sizeof welcome_) return welcome_ == welcome ? State::proven : State::closed;
  return is_open ? State::under_way : State::closed;
}

std::string reason_of(Dialing::State state, int error) {
  switch (state) {
    case Dialing::State::unreachable:
      return std::strerror(error);
    case Dialing::State::closed:
      return "the connection was closed";
    case Dialing::State::no_rank:
      return "another program listens there";
    case Dialing::State::other_version:
      return "another version of autopar listens there";
    case Dialing::State::encrypts:
      return "the rank there encrypts (--tls), this one does not";
    case Dialing::State::encrypts_not:
      return "this rank encrypts (--tls), the one there does not";
    case Dialing::State::unproven:
      return "who listens there cannot prove that it knows the ranks' secret";
    default:
      return {};
  }
}

}  // namespace autopar::runtime
