#include "runtime/comm/transfer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

namespace {

/// After this part of the timeout a wait is told to the others.
constexpr int parts_of_timeout = 8;

}  // namespace

Transfer::Transfer(Connections& connections, const char* what, std::chrono::milliseconds timeout,
                   std::string_view label)
    : connections_(connections), what_(what), timeout_(timeout), label_(label) {
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
  Deadline last_move = network.now();
  std::chrono::milliseconds patience = timeout_;
  while (move()) {
    if (has_moved_) {
      last_move = network.now();
      patience = timeout_;
      tell_wait(false);
    }
    const auto until = is_wait_told_ ? patience : timeout_ / parts_of_timeout;
    if (connections_.wait(what_, awaited(), last_move + until)) continue;
    if (!is_wait_told_) {
      tell_wait(true);
    } else if (patience == timeout_ && idle_peers().empty()) {
      patience = 2 * timeout_;
    } else {
      give_up_waiting(patience);
    }
  }
}

/// Tells the other ranks that this one waits, or goes on, unless they know.
void Transfer::tell_wait(bool waits) {
  if (waits != is_wait_told_) connections_.count_long_wait(waits ? 1 : -1);
  is_wait_told_ = waits;
}

/// Moves what can be moved now; false when all is.
bool Transfer::move() {
  has_moved_ = false;
  for (Message& message : sends_)
    has_moved_ |= advance(message, [](const Socket& socket, std::span<const iovec> parts) {
      return socket.send(parts);
    });
  for (Message& message : receives_) {
    has_moved_ |= advance(message, [](const Socket& socket, std::span<const iovec> parts) {
      return socket.receive(parts);
    });
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

/// The missing peers that do not wait themselves.
std::vector<int> Transfer::idle_peers() const {
  std::vector<int> idle = missing_peers();
  std::erase_if(idle, [&](int peer) { return connections_.is_waiting(peer); });
  return idle;
}

void Transfer::give_up_waiting(std::chrono::milliseconds waited) {
  const std::vector<int> idle = idle_peers();
  const std::vector<int> absent = idle.empty() ? missing_peers() : idle;
  connections_.give_up(
      absent.front(),
      fmt::format("rank {}: {} waited {} ms for rank(s) {}; they did not come", connections_.rank(),
                  what_, waited.count(), fmt::join(absent, ", ")));
}

}  // namespace autopar::runtime
