#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "graph/data_type.h"

namespace autopar::runtime {

/// How long a barrier waits for ranks that may still be reading their weights.
constexpr auto loading_timeout = std::chrono::minutes(10);

/// Another rank failed, and this one does not go on without it; that rank's error is the cause.
class GivenUp : public Error {
 public:
  using Error::Error;
};

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

  /// In place: `data` has `elements` elements of `type` on every rank.
  virtual void all_reduce(std::byte* data, std::int64_t elements, graph::DataType type,
                          ReduceOp op) = 0;
  /// `out` gets the ranks' blocks one after another, in group order; block_bytes by rank.
  virtual void all_gather(const std::byte* in, std::byte* out,
                          std::span<const std::int64_t> block_bytes) = 0;
  /// `in` has one block a rank, one after another; `out` gets this rank's block, reduced.
  virtual void reduce_scatter(const std::byte* in, std::byte* out,
                              std::span<const std::int64_t> block_elements, graph::DataType type,
                              ReduceOp op) = 0;
  /// `in` has one block for each rank, `out` gets one block from each, one after another.
  virtual void all_to_all(const std::byte* in, std::span<const std::int64_t> send_bytes,
                          std::byte* out, std::span<const std::int64_t> receive_bytes) = 0;
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

}  // namespace autopar::runtime
