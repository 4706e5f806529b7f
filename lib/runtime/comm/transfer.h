#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/comm/connections.h"

namespace autopar::runtime {

/// What is no collective, and takes connections of its own.
inline constexpr std::string_view message_label = "a message";

/// The messages of one collective, all of them on their way at the same time.
class Transfer {
 public:
  /// `label` is what both ends know the transfer as. One that waits long with a timeout of its own
  /// does not tell the others that it waits.
  Transfer(Connections& connections, const char* what,
           std::optional<std::chrono::milliseconds> own_timeout, std::string_view label);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void send(int peer, const std::byte* data, std::int64_t bytes);
  void receive(int peer, std::byte* data, std::int64_t bytes);

  /// Waits until all is sent and received, or somebody is to blame that it is not.
  void finish();

 private:
  /// What a message begins with: ranks that are not at the same collective must not take each
  /// other's data for theirs.
  struct Header {
    std::array<char, 16> collective{};
    std::int64_t bytes = 0;
    bool operator==(const Header&) const = default;
  };

  struct Message {
    int peer = 0;
    Header header;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::size_t moved = 0;  ///< of header and data

    std::size_t total() const { return sizeof header + static_cast<std::size_t>(bytes); }
    static bool is_done(const Message& message) { return message.moved == message.total(); }
  };

  bool move();
  template <typename Move>
  bool advance(Message& message, const Move& move_parts);
  void check_header(const Message& message);
  const Socket& socket_of(const Message& message) const;
  std::vector<pollfd> awaited() const;
  std::vector<int> missing_peers() const;

  Connections& connections_;
  const char* what_;
  std::optional<std::chrono::milliseconds> own_timeout_;
  std::string_view label_;
  Header header_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
};

}  // namespace autopar::runtime
