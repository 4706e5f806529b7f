#include "runtime/comm/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

namespace {

/// One call moves so many, which stay in the caches while their checksum is made.
constexpr std::size_t bytes_at_once = std::size_t{256} << 10;

}  // namespace

Transfer::Transfer(Connections& connections, const char* what,
                   std::optional<std::chrono::milliseconds> own_timeout, std::string_view label)
    : connections_(connections), what_(what), own_timeout_(own_timeout), label_(label) {
  connections_.check(what);
}

Channel Transfer::channel() const {
  return label_ == message_label ? Channel::messages : Channel::data;
}

Transfer::Header Transfer::header_of(std::string_view label, std::size_t bytes) {
  Header header{.bytes = static_cast<std::int64_t>(bytes)};
  label.copy(header.collective.data(), header.collective.size());
  header.checksum = xxh3_of(bytes_of(header).first(offsetof(Header, checksum)));
  return header;
}

void Transfer::send(int peer, const std::byte* data, std::int64_t bytes) {
  Message& message = sends_.emplace_back();
  message.peer = peer;
  message.data = const_cast<std::byte*>(data);
  message.bytes = at(bytes);
  message.header = header_of(label_, message.bytes);
}

void Transfer::receive(int peer, std::byte* data, std::int64_t bytes) {
  Message& message = receives_.emplace_back();
  message.peer = peer;
  message.data = data;
  message.bytes = at(bytes);
}

void Transfer::finish() {
  Network& network = connections_.network();
  Vigil vigil(connections_.signs(), connections_.rank(),
              own_timeout_.value_or(connections_.timeout()), network.now());
  while (move()) {
    const std::vector<pollfd> sockets = awaited();
    const Deadline soon = network.now() + connections_.pause_while_connecting();
    connections_.wait(what_, sockets,
                      lacks_links_ ? std::min(vigil.next_look(), soon) : vigil.next_look());
    const Deadline now = network.now();
    if (now < vigil.next_look()) continue;
    if (!own_timeout_) connections_.tell(Sign::waits);
    const std::vector<int> blamed = vigil.to_blame(missing_peers(), now);
    if (!blamed.empty())
      connections_.give_up(blamed.front(), Notice::Cause::late, vigil.absence(what_, blamed, now));
  }
}

/// Moves what can be moved now; false when all is.
bool Transfer::move() {
  for (Message& message : sends_) send_some(message);
  for (Message& message : receives_)
    if (receive_some(message)) connections_.hear_from(message.peer);
  std::erase_if(sends_, &Message::is_done);
  std::erase_if(receives_, &Message::is_done);
  return !sends_.empty() || !receives_.empty();
}

void Transfer::Message::add_to_sum(std::size_t until) {
  if (!sum) sum.emplace();
  sum->add({data + summed, until - summed});
  summed = until;
}

std::size_t Transfer::Message::next_parts(std::array<iovec, 3>& parts, std::size_t until) {
  std::size_t count = 0;
  std::size_t begin = 0;  // of the part, in the message
  const auto append = [&](std::byte* part, std::size_t length) {
    const std::size_t before = std::clamp(moved, begin, begin + length) - begin;
    if (before < length) parts[count++] = {part + before, length - before};
    begin += length;
  };
  append(writable_bytes_of(header).data(), sizeof header);
  append(data, until);
  if (bytes > 0 && until == bytes) append(writable_bytes_of(checksum).data(), sizeof checksum);
  return count;
}

/// Sends what can be sent now.
void Transfer::send_some(Message& message) {
  const Socket* const socket = connections_.outgoing(message.peer, channel());
  if (socket == nullptr) {
    if (connections_.is_out_of_reach(message.peer)) connections_.lose(what_, message.peer);
    return;
  }
  while (!Message::is_done(message)) {
    const std::size_t sent_data =
        std::max(message.moved, sizeof message.header) - sizeof message.header;
    if (message.bytes > 0 && message.summed < message.bytes && sent_data == message.summed) {
      message.add_to_sum(std::min(message.bytes, message.summed + bytes_at_once));
      if (message.summed == message.bytes) message.checksum = message.sum->value();
    }
    std::array<iovec, 3> parts{};
    const std::size_t count = message.next_parts(parts, message.summed);
    const ssize_t sent = socket->send(std::span(parts).first(count));
    if (sent == -EAGAIN) break;
    if (sent <= 0) connections_.lose(what_, message.peer);
    message.moved += static_cast<std::size_t>(sent);
  }
}

/// Receives what has come; whether that is anything.
bool Transfer::receive_some(Message& message) {
  const Socket* const socket = connections_.incoming(message.peer, channel());
  // The way back, over which the peer tells that it waits, or has failed.
  const bool hears_peer = connections_.outgoing(message.peer, Channel::data) != nullptr;
  if (socket == nullptr) {
    const bool is_gone = connections_.has_left(message.peer) ||
                         (!hears_peer && connections_.is_out_of_reach(message.peer));
    if (!is_gone) return false;
    connections_.progress();
    if (connections_.incoming(message.peer, channel()) == nullptr)
      connections_.lose(what_, message.peer);
    return false;
  }
  const std::size_t before = message.moved;
  while (!Message::is_done(message)) {
    std::array<iovec, 3> parts{};
    const std::size_t until = std::min(message.bytes, message.summed + bytes_at_once);
    const std::size_t count = message.next_parts(parts, until);
    const ssize_t received = socket->receive(std::span(parts).first(count));
    if (received == -EAGAIN) break;
    if (received <= 0) connections_.lose(what_, message.peer);
    message.moved += static_cast<std::size_t>(received);
    if (message.moved < sizeof message.header) continue;
    check_header(message, *socket);
    const std::size_t of_data = std::min(message.moved - sizeof message.header, message.bytes);
    if (of_data > message.summed) message.add_to_sum(of_data);
  }
  if (message.bytes > 0 && Message::is_done(message) && message.checksum != message.sum->value())
    refuse_damaged(message, *socket);
  return message.moved > before;
}

void Transfer::check_header(const Message& message, const Socket& socket) {
  const Header expected = header_of(label_, message.bytes);
  const Header& header = message.header;
  if (header == expected) return;
  if (header.checksum != xxh3_of(bytes_of(header).first(offsetof(Header, checksum))))
    refuse_damaged(message, socket);
  const auto& other = header.collective;
  connections_.give_up(
      message.peer, Notice::Cause::at_odds,
      fmt::format("rank {} is at {} of {} bytes, but rank {} at {} of {}: were both started with "
                  "the same options?",
                  connections_.rank(), label_, message.bytes, message.peer,
                  one_line(std::string(other.data(), strnlen(other.data(), other.size()))),
                  header.bytes));
}

void Transfer::refuse_damaged(const Message& message, const Socket& socket) {
  connections_.give_up(
      message.peer, Notice::Cause::damaged,
      fmt::format("rank {} at {}: {} got bytes of rank {} at {} that were damaged on the way, as "
                  "their checksum shows; check the network between the two",
                  connections_.rank(), to_string(local_address(socket)), what_, message.peer,
                  to_string(peer_address(socket))));
}

std::vector<pollfd> Transfer::awaited() {
  std::vector<pollfd> sockets;
  lacks_links_ = false;
  const auto append = [&](const Socket* socket, short events) {
    if (socket == nullptr)
      lacks_links_ = true;
    else
      sockets.push_back({socket->handle(), events, 0});
  };
  for (const Message& message : sends_)
    append(connections_.outgoing(message.peer, channel()), POLLOUT);
  for (const Message& message : receives_)
    append(connections_.incoming(message.peer, channel()), POLLIN);
  return sockets;
}

std::vector<int> Transfer::missing_peers() const {
  std::vector<int> missing;
  for (const Message& message : receives_.empty() ? sends_ : receives_)
    missing.push_back(message.peer);
  return missing;
}

}  // namespace autopar::runtime
