#pragma once

#include <vector>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

inline constexpr std::int64_t no_block = -1;  ///< bytes, where there is not even an empty one
/// What a rank sends to another one, and what it receives from one, in an exchange.
struct SendBlock {
  const std::byte* data = nullptr;
  std::int64_t bytes = no_block;
};
struct ReceiveBlock {
  std::byte* out = nullptr;  ///< where the block goes; null: wherever the transport likes
  std::int64_t bytes = no_block;
  const std::byte* place = nullptr;  ///< where it lies after exchange(), until release()
};

/// The host's collectives, written once over what each transport (memory of threads, TCP, MPI) does
/// in its own way: moving blocks. A *block* is what one rank sends to another in an exchange; a
/// *chunk* is those elements of a reduction that one rank reduces. Reductions go in rank order, so
/// that all ranks, over all transports, have the same bits.
class TransportCommunicator : public HostCommunicator {
 public:
  void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, DataType type,
                  ReduceOp op) final;
  void all_gather(const std::byte* in, std::byte* out, BlockSizes block_bytes) final;
  void reduce_scatter(const std::byte* in, std::byte* out, BlockSizes block_elements, DataType type,
                      ReduceOp op) final;
  void all_to_all(const std::byte* in, BlockSizes send_bytes, std::byte* out,
                  BlockSizes receive_bytes) final;
  void broadcast(std::byte* data, std::int64_t bytes, int root) final;

 protected:
  /// Moves blocks between this rank and all others at the same time, by rank of the group; that of
  /// the rank itself is not the transport's. All members call it, for the same collective `what`,
  /// and no rank's sent blocks change before its release().
  virtual void exchange(const char* what, std::span<const SendBlock> sends,
                        std::span<ReceiveBlock> receives) = 0;
  /// Every exchange's end.
  virtual void release(const char* /*what*/) {}

  /// Whether the group is so large that a rank should not exchange something small with each other
  /// one: such collectives take rounds then, in which ranks hand on what they have got.
  virtual bool takes_rounds() const { return false; }

  /// Memory of this communicator's own for blocks that are received anywhere.
  void provide_memory(std::span<ReceiveBlock> receives);

 private:
  /// exchange() of the blocks that `fill(rank, sent, received)` tells, and the rank's own block.
  template <typename Fill>
  void move_blocks(const char* what, const Fill& fill);
  void gather(const char* what, const std::byte* in, std::byte* out, BlockSizes block_bytes);
  void scatter_reduced(const char* what, const std::byte* in, std::byte* out,
                       BlockSizes block_elements, DataType type, ReduceOp op);

  // Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications
  // in multiport message-passing systems" (1997): each rank talks with log2(size()) others.
  void gather_in_rounds(const char* what, const std::byte* in, std::byte* out,
                        BlockSizes block_bytes);
  std::vector<std::byte> scatter_in_rounds(const char* what, const std::byte* in,
                                           BlockSizes block_elements, DataType type);
  /// One round: this rank sends to the one `distance` ranks on (`direction` 1) or back (-1), and
  /// receives from the one as far the other way.
  void hand_on(const char* what, int distance, int direction, SendBlock sent,
               ReceiveBlock received);

  std::vector<SendBlock> sends_;        ///< by rank
  std::vector<ReceiveBlock> receives_;  ///< by rank
  std::vector<const std::byte*> sources_;
  std::vector<std::byte> received_;
  std::vector<std::byte> reduced_;
};

}  // namespace autopar::runtime
