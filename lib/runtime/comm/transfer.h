#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file_digest.h"
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
    std::uint64_t checksum = 0;  ///< of what is above
    bool operator==(const Header&) const = default;
  };

  /// Header, data and, where there are any, their checksum, which is made piece by piece while the
  /// pieces are in the processor's caches.
  struct Message {
    int peer = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Header header;
    std::uint64_t checksum = 0;
    std::size_t moved = 0;   ///< of all three
    std::size_t summed = 0;  ///< of data, in `sum`
    std::optional<Xxh3Stream> sum;

    std::size_t total() const { return sizeof header + bytes + (bytes > 0 ? sizeof checksum : 0); }
    static bool is_done(const Message& message) { return message.moved == message.total(); }
    void add_to_sum(std::size_t until);
    /// What is to be moved next, of data up to byte `until`.
    std::size_t next_parts(std::array<iovec, 3>& parts, std::size_t until);
  };

  Channel channel() const;
  static Header header_of(std::string_view label, std::size_t bytes);
  bool move();
  void send_some(Message& message);
  bool receive_some(Message& message);
  void check_header(const Message& message, const Socket& socket);
  [[noreturn]] void refuse_damaged(const Message& message, const Socket& socket);
  std::vector<pollfd> awaited();
  std::vector<int> missing_peers() const;

  Connections& connections_;
  const char* what_;
  std::optional<std::chrono::milliseconds> own_timeout_;
  std::string_view label_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  bool lacks_links_ = false;  ///< whether a message waits for its connection
};

}  // namespace autopar::runtime
