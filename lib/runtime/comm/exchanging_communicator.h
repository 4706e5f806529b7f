#pragma once

#include <vector>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// What communicators of processes share: collectives, reductions among them, made of moving bytes.
/// Reductions are computed here, in rank order, so that all ranks have the same bits.
class ExchangingCommunicator : public Communicator {
 public:
  void all_reduce(std::byte* data, std::int64_t elements, graph::DataType type,
                  ReduceOp op) override;
  void all_gather(const std::byte* in, std::byte* out,
                  std::span<const std::int64_t> block_bytes) override;
  void reduce_scatter(const std::byte* in, std::byte* out,
                      std::span<const std::int64_t> block_elements, graph::DataType type,
                      ReduceOp op) override;
  void all_to_all(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                  std::span<const std::int64_t> receive_bytes) override;

 protected:
  /// An all-gather, for the collective `what`.
  virtual void gather(const std::byte* in, std::byte* out,
                      std::span<const std::int64_t> block_bytes, const char* what) = 0;
  /// An all-to-all, for the collective `what`.
  virtual void exchange(const std::byte* in, std::span<const std::int64_t> send_bytes,
                        std::byte* out, std::span<const std::int64_t> receive_bytes,
                        const char* what) = 0;

 private:
  void exchange_and_reduce(const std::byte* in, std::byte* out,
                           std::span<const std::int64_t> block_elements, graph::DataType type,
                           ReduceOp op, const char* what);

  std::vector<std::byte> reduced_;
  std::vector<std::byte> received_;
};

}  // namespace autopar::runtime
