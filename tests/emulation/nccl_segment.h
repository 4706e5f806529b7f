#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace autopar::fake_nccl {

/// What the members of one communicator share: memory with a name that threads and processes map.
/// Zero is the first state of everything. Nothing here waits: who must wait asks again.
class Segment {
 public:
  /// What the members tell of themselves.
  struct Member {
    std::atomic<int> has_come;
    std::atomic<int> has_aborted;
    int process;
    std::uint64_t host;  ///< of which machine it says that it is
    char device[32];     ///< PCI bus id
  };

  /// Bytes of a collective that every member shows the others at a time.
  static constexpr std::size_t chunk_bytes = 256 << 10;

  /// The same for all members of one round, or they have not called the same collective.
  struct Claim {
    std::int32_t kind;
    std::int32_t type;
    std::int32_t reduction;
    std::int32_t root;
    std::uint64_t count;
    bool operator==(const Claim&) const = default;
  };

  /// Members meet in rounds: each shows something, and reads once all have shown theirs. It shows
  /// the next once all have read.
  template <std::size_t bytes>
  struct Board {
    std::atomic<std::uint64_t> shown;  ///< rounds
    std::atomic<std::uint64_t> read;
    Claim claim;
    alignas(64) std::byte data[bytes];
  };
  using HostBoard = Board<64>;             ///< of what members agree on by calls
  using StreamBoard = Board<chunk_bytes>;  ///< of collectives

  /// From one member to another.
  struct Channel {
    static constexpr std::size_t chunk_bytes = 64 << 10;
    std::atomic<std::uint64_t> written;  ///< chunks
    std::atomic<std::uint64_t> read;
    std::atomic<int> is_refused;  ///< the receiver has called for something else
    Claim claim;
    alignas(64) std::byte data[chunk_bytes];
  };

  enum class Opening { done, not_yet, refused };

  Segment() = default;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Rank 0 makes the segment, the others find it: `not_yet` until it is there. `refused`, with
  /// `why`: there is one already, or it is for another number of ranks.
  Opening open(const std::string& name, int ranks, int rank, std::string& why);

  /// Tells the others that this rank is here; false if the rank has already come. The last to come
  /// removes the name.
  bool come(std::uint64_t host, const std::string& device);
  bool all_have_come() const;
  /// Tells the others that this rank takes part no more. Removes the name if not all have come.
  void tell_of_abort();
  /// A rank that has told so, or -1.
  int find_aborted() const;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  Member& member(int rank) const;
  HostBoard* host_boards() const;  ///< one a member
  StreamBoard* stream_boards() const;
  Channel& channel(int from, int to) const;

 private:
  struct Header;
  Header* header() const { return static_cast<Header*>(memory_); }
  void forget_name();

  std::string name_;
  int ranks_ = 0;
  int rank_ = 0;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Shows `data` of this rank if all have read the round before; then what others show is in
/// `boards[r].data` as soon as all_shown. A round ends with done_reading.
template <typename Board>
bool may_show(const Board* boards, int ranks, int rank) {
  const std::uint64_t round = boards[rank].read.load(std::memory_order_relaxed);
  for (int i = 0; i < ranks; ++i) {
    if (boards[i].read.load(std::memory_order_acquire) < round) return false;
  }
  return true;
}

template <typename Board>
void show(Board* boards, int rank) {
  const std::uint64_t round = boards[rank].read.load(std::memory_order_relaxed);
  boards[rank].shown.store(round + 1, std::memory_order_release);
}

template <typename Board>
bool all_shown(const Board* boards, int ranks, int rank) {
  const std::uint64_t round = boards[rank].read.load(std::memory_order_relaxed);
  for (int i = 0; i < ranks; ++i) {
    if (boards[i].shown.load(std::memory_order_acquire) <= round) return false;
  }
  return true;
}

template <typename Board>
void done_reading(Board* boards, int rank) {
  boards[rank].read.fetch_add(1, std::memory_order_release);
}

}  // namespace autopar::fake_nccl
