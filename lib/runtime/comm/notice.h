#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/comm/socket.h"

namespace autopar::runtime {

/// What ranks tell each other beside what they compute: signs of life, and that a rank failed or is
/// done. Rank 0 tells when all have joined.
struct Notice {
  enum class Kind : std::uint32_t { failed, done, waiting, working, joined };
  /// Why a rank failed, as the one says that has told it first.
  enum class Cause : std::uint32_t { its_own, lost, late, damaged, at_odds };

  Kind kind = Kind::done;
  Cause cause = Cause::its_own;
  std::int32_t failed_rank = -1;
  std::int32_t told_by = -1;
  bool operator==(const Notice&) const = default;
};

/// The notices that come over a connection, which may come in pieces.
class NoticeReader {
 public:
  enum class Heard { notice, nothing_yet, end, damaged };
  Heard read(const Socket& socket, Notice& notice);

 private:
  struct Sealed {
    Notice notice;
    std::uint64_t checksum = 0;
  };
  friend class NoticeWriter;

  Sealed incoming_;
  std::size_t received_ = 0;
};

/// The notices that go over a connection: what cannot be sent now goes with the next.
class NoticeWriter {
 public:
  void write(const Socket& socket, const Notice& notice) noexcept;
  void flush(const Socket& socket) noexcept;

 private:
  /// A peer that reads none loses the last ones.
  static constexpr std::size_t most_bytes = 64 * sizeof(NoticeReader::Sealed);

  std::array<std::byte, most_bytes> unsent_{};
  std::size_t length_ = 0;
};

}  // namespace autopar::runtime
