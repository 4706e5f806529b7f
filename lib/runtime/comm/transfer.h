#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/comm/connections.h"

namespace autopar::runtime {

/// What is no collective, and takes connections of its own.
inline constexpr std::string_view message_label = "a message";

/// The messages of one collective, all of them on their way at the same time.
class Transfer {
 public:
  /// `label` is what both ends know the transfer as.
  Transfer(Connections& connections, const char* what, std::chrono::milliseconds timeout,
           std::string_view label);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { tell_wait(false); }

  void send(int peer, const std::byte* data, std::int64_t bytes);
  void receive(int peer, std::byte* data, std::int64_t bytes);

  /// Waits until all is sent and received. The timeout is for nothing at all being moved. It is
  /// doubled where all that are missing wait for others: these have their names from them by then.
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

  void tell_wait(bool waits);
  bool move();
  template <typename Move>
  bool advance(Message& message, const Move& move_parts);
  void check_header(const Message& message);
  const Socket& socket_of(const Message& message) const;
  std::vector<pollfd> awaited() const;
  std::vector<int> missing_peers() const;
  std::vector<int> idle_peers() const;
  [[noreturn]] void give_up_waiting(std::chrono::milliseconds waited);

  Connections& connections_;
  const char* what_;
  std::chrono::milliseconds timeout_;
  std::string_view label_;
  Header header_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  bool has_moved_ = false;     ///< at the last look
  bool is_wait_told_ = false;  ///< to the other ranks
};

}  // namespace autopar::runtime
