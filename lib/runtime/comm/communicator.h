#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/work_signs.h"
#include "graph/data_type.h"

namespace autopar::runtime {

/// Another rank failed, and this one does not go on without it; that rank's error is the cause.
class GivenUp : public Error {
 public:
  using Error::Error;
};

using graph::DataType;
/// One a rank, in group order: its block's bytes or elements.
using BlockSizes = std::span<const std::int64_t>;

/// A rank, or a number of bytes or elements, as an index or a size.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

enum class ReduceOp { sum, max, min, mean };

/// Collectives among the ranks of one group, on contiguous memory of one kind (see HostCommunicator
/// and DeviceCommunicator), and messages between two of them. Every member calls the same
/// collectives in the same order. Byte counts may differ between ranks (uneven shards) and may be
/// 0.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  ///< within the group
  virtual int size() const = 0;

  /// `in` and `out`, which may be the same, have `elements` elements of `type` on every rank.
  virtual void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, DataType type,
                          ReduceOp op) = 0;
  /// `out` gets the ranks' blocks one after another, in group order; block_bytes by rank.
  virtual void all_gather(const std::byte* in, std::byte* out, BlockSizes block_bytes) = 0;
  /// `in` has one block a rank, one after another; `out` gets this rank's block, reduced.
  virtual void reduce_scatter(const std::byte* in, std::byte* out, BlockSizes block_elements,
                              DataType type, ReduceOp op) = 0;
  /// `in` has one block for each rank, `out` gets one block from each, one after another.
  virtual void all_to_all(const std::byte* in, BlockSizes send_bytes, std::byte* out,
                          BlockSizes receive_bytes) = 0;
  virtual void broadcast(std::byte* data, std::int64_t bytes, int root) = 0;

  /// A message to another member, which calls receive() with the same number of bytes; else both
  /// throw Error that names both. Messages between two ranks come in the order in which they were
  /// sent. Returns when `data` may be changed.
  virtual void send(const std::byte* data, std::int64_t bytes, int to) = 0;
  /// Returns when all has come.
  virtual void receive(std::byte* out, std::int64_t bytes, int from) = 0;

  /// Throws Error if a member has failed or left, as far as is known without waiting.
  virtual void check_members() = 0;

  /// Makes every waiting and later call of any member throw: a rank that fails calls it so that
  /// no other waits for it until the timeout.
  virtual void abort() noexcept = 0;
};

/// A communicator for the host's memory. Each call waits for ranks as long as they show that they
/// work, or wait themselves (signs_of_life.h). Where one has shown nothing for the communicator's
/// timeout, the call throws Error naming the collective and that rank; so do the other members.
///
/// While one thread is in a collective, another one may send and a third receive, on the same
/// communicator or on a subgroup of it.
class HostCommunicator : public Communicator, public WorkListener {
 public:
  /// The communicator of a subgroup, given as ranks of this communicator in group order; every
  /// member of the subgroup calls it, in the same order of subgroups; others need not.
  virtual std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) = 0;

  /// `timeout` is one of its own, for ranks that have nothing to do meanwhile. One that fails or
  /// dies ends it no later than others.
  virtual void barrier(std::optional<std::chrono::milliseconds> timeout = {}) = 0;

  /// For a rank that misses another one by other means than this communicator, which do not name
  /// it: waits a short while for the news of which rank it is, and throws Error naming it. Returns
  /// where none comes, and at once where ranks get no such news. Until then the others hear nothing
  /// of a failure of this rank, which would hide the cause from them.
  virtual void await_cause() {}

  /// Tells the others, now and then, that this rank is at work and comes to them later. Any thread
  /// of the rank may call it, also while another one is in a collective. Throws GivenUp where a
  /// rank is known to have failed: then the work is for nothing.
  void note_work() override {}

  /// Whether what ranks send cannot be read on the way.
  virtual bool encrypts() const { return false; }

  /// Tells the other members how far this rank has come, a number that never falls.
  virtual void report_progress(std::int64_t) {}
  /// What a member has reported, 0 at first; nullopt where ranks cannot see each other's reports.
  virtual std::optional<std::int64_t> progress_of(int /*rank*/) const { return std::nullopt; }
};

/// Every rank's value, by rank. All ranks of the group call it; the same holds for gather_lists.
template <typename T>
std::vector<T> gather_all(HostCommunicator& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(at(group.size()));
  group.all_gather(reinterpret_cast<const std::byte*>(&mine),
                   reinterpret_cast<std::byte*>(all.data()),
                   std::vector<std::int64_t>(all.size(), sizeof mine));
  return all;
}

/// The same of lists, which may differ in length. Throws Error where a rank tells a length that no
/// list of ranks has: what it says is not believed before memory is taken for it.
template <typename T>
std::vector<std::vector<T>> gather_lists(HostCommunicator& group, std::span<const T> mine) {
  const auto bytes = static_cast<std::int64_t>(mine.size_bytes());
  const std::vector<std::int64_t> block_bytes = gather_all(group, bytes);
  constexpr std::int64_t most = std::int64_t{1} << 30;  // traces are tens of millions of bytes
  for (std::size_t rank = 0; rank < block_bytes.size(); ++rank) {
    const std::int64_t each = block_bytes[rank];
    if (each < 0 || each > most || each % std::int64_t{sizeof(T)} != 0)
      fail("rank {} told of a list of {} bytes, which none has; start all ranks again", rank, each);
  }
  std::vector<T> all(at(std::reduce(block_bytes.begin(), block_bytes.end())) / sizeof(T));
  group.all_gather(reinterpret_cast<const std::byte*>(mine.data()),
                   reinterpret_cast<std::byte*>(all.data()), block_bytes);
  std::vector<std::vector<T>> lists;
  auto begin = all.cbegin();
  for (const std::int64_t each : block_bytes) {
    const auto end = begin + each / std::int64_t{sizeof(T)};
    lists.emplace_back(begin, end);
    begin = end;
  }
  return lists;
}

/// A communicator for a device's memory, which kernels call: one thread alone, unless the device
/// shares the host's memory.
class DeviceCommunicator : public Communicator {
 public:
  /// See HostCommunicator::subgroup; NCCL's is called by all ranks at once.
  virtual std::unique_ptr<DeviceCommunicator> subgroup(std::span<const int> ranks) = 0;

  /// Whether a call waits, on the host, for the device and for the other ranks, instead of joining
  /// a queue of the device.
  virtual bool waits_on_host() const { return false; }
  /// Whether calls join a queue of the device, those of one communicator one after another.
  virtual bool joins_queue() const { return false; }
  /// Replaces the queue (Device::queue) that it was made with.
  virtual void join_queue(void* /*queue*/) {}

  /// Collectives between the two, in this thread and of any communicators of the same kind, may go
  /// out as one; none has to be under way before end_group().
  virtual void begin_group() {}
  virtual void end_group() {}
};

}  // namespace autopar::runtime
