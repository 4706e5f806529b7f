#include "runtime/comm/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

Transfer::Transfer(Connections& connections, const char* what,
                   std::optional<std::chrono::milliseconds> own_timeout, std::string_view label)
    : connections_(connections), what_(what), own_timeout_(own_timeout), label_(label) {
  label_.copy(header_.collective.data(), header_.collective.size());
  connections_.check(what);
}

void Transfer::send(int peer, const std::byte* data, std::int64_t bytes) {
  header_.bytes = bytes;
  sends_.push_back(
      {.peer = peer, .header = header_, .data = const_cast<std::byte*>(data), .bytes = bytes});
}

void Transfer::receive(int peer, std::byte* data, std::int64_t bytes) {
  receives_.push_back({.peer = peer, .header = {}, .data = data, .bytes = bytes});
}

void Transfer::finish() {
  Network& network = connections_.network();
  Vigil vigil(connections_.signs(), connections_.rank(),
              own_timeout_.value_or(connections_.timeout()), network.now());
  while (move()) {
    connections_.wait(what_, awaited(), vigil.next_look());
    const Deadline now = network.now();
    if (now < vigil.next_look()) continue;
    if (!own_timeout_) connections_.tell(Sign::waits);
    const std::vector<int> blamed = vigil.to_blame(missing_peers(), now);
    if (!blamed.empty()) connections_.give_up(blamed.front(), vigil.absence(what_, blamed, now));
  }
}

/// Moves what can be moved now; false when all is.
bool Transfer::move() {
  for (Message& message : sends_)
    advance(message,
            [](const Socket& socket, std::span<const iovec> parts) { return socket.send(parts); });
  for (Message& message : receives_) {
    const bool has_come = advance(message, [](const Socket& socket, std::span<const iovec> parts) {
      return socket.receive(parts);
    });
    if (has_come) connections_.hear_from(message.peer);
    check_header(message);
  }
  std::erase_if(sends_, &Message::is_done);
  std::erase_if(receives_, &Message::is_done);
  return !sends_.empty() || !receives_.empty();
}

/// Sends or receives what can be moved now; whether that is anything.
template <typename Move>
bool Transfer::advance(Message& message, const Move& move_parts) {
  const std::size_t before = message.moved;
  while (!Message::is_done(message)) {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (message.moved < sizeof message.header) {
      parts[count++] = {reinterpret_cast<std::byte*>(&message.header) + message.moved,
                        sizeof message.header - message.moved};
    }
    const std::size_t of_data =
        std::max(message.moved, sizeof message.header) - sizeof message.header;
    parts[count++] = {message.data + of_data, static_cast<std::size_t>(message.bytes) - of_data};
    const ssize_t moved = move_parts(socket_of(message), std::span(parts).first(count));
    if (moved > 0) {
      message.moved += static_cast<std::size_t>(moved);
    } else if (moved == -EAGAIN) {
      break;
    } else {
      connections_.lose(what_, message.peer);
    }
  }
  return message.moved > before;
}

void Transfer::check_header(const Message& message) {
  header_.bytes = message.bytes;
  if (message.moved < sizeof message.header || message.header == header_) return;
  const auto& other = message.header.collective;
  connections_.give_up(
      message.peer,
      fmt::format("rank {} is at {} of {} bytes, but rank {} at {} of {}: were both started with "
                  "the same options?",
                  connections_.rank(), label_, message.bytes, message.peer,
                  std::string_view(other.data(), strnlen(other.data(), other.size())),
                  message.header.bytes));
}

const Socket& Transfer::socket_of(const Message& message) const {
  return label_ == message_label ? connections_.messages(message.peer)
                                 : connections_.data(message.peer);
}

std::vector<pollfd> Transfer::awaited() const {
  std::vector<pollfd> sockets;
  for (const Message& message : sends_)
    sockets.push_back({socket_of(message).handle(), POLLOUT, 0});
  for (const Message& message : receives_)
    sockets.push_back({socket_of(message).handle(), POLLIN, 0});
  return sockets;
}

std::vector<int> Transfer::missing_peers() const {
  std::vector<int> missing;
  for (const Message& message : receives_.empty() ? sends_ : receives_)
    missing.push_back(message.peer);
  return missing;
}

}  // namespace autopar::runtime
