#include "runtime/comm/exchanging_communicator.h"

#include <algorithm>

#include "runtime/comm/reduce.h"

namespace autopar::runtime {

/// Reduce-scatter by all-to-all, then all-gather: each rank reduces its share.
void ExchangingCommunicator::all_reduce(std::byte* data, std::int64_t elements,
                                        graph::DataType type, ReduceOp op) {
  if (size() == 1) return;
  const std::int64_t share = (elements + size() - 1) / size();
  std::vector<std::int64_t> blocks;
  std::vector<std::int64_t> block_bytes;
  for (int r = 0; r < size(); ++r) {
    blocks.push_back(std::min(elements, share * (r + 1)) - std::min(elements, share * r));
    block_bytes.push_back(graph::bytes_of(type, blocks.back()));
  }
  reduced_.resize(static_cast<std::size_t>(block_bytes[static_cast<std::size_t>(rank())]));
  exchange_and_reduce(data, reduced_.data(), blocks, type, op, "all-reduce");
  gather(reduced_.data(), data, block_bytes, "all-reduce");
}

void ExchangingCommunicator::all_gather(const std::byte* in, std::byte* out,
                                        std::span<const std::int64_t> block_bytes) {
  gather(in, out, block_bytes, "all-gather");
}

void ExchangingCommunicator::reduce_scatter(const std::byte* in, std::byte* out,
                                            std::span<const std::int64_t> block_elements,
                                            graph::DataType type, ReduceOp op) {
  exchange_and_reduce(in, out, block_elements, type, op, "reduce-scatter");
}

void ExchangingCommunicator::all_to_all(const std::byte* in,
                                        std::span<const std::int64_t> send_bytes, std::byte* out,
                                        std::span<const std::int64_t> receive_bytes) {
  exchange(in, send_bytes, out, receive_bytes, "all-to-all");
}

void ExchangingCommunicator::exchange_and_reduce(const std::byte* in, std::byte* out,
                                                 std::span<const std::int64_t> block_elements,
                                                 graph::DataType type, ReduceOp op,
                                                 const char* what) {
  std::vector<std::int64_t> send_bytes;
  for (const std::int64_t elements : block_elements) {
    send_bytes.push_back(graph::bytes_of(type, elements));
  }
  const std::int64_t own = send_bytes[static_cast<std::size_t>(rank())];
  const std::vector<std::int64_t> receive_bytes(static_cast<std::size_t>(size()), own);
  received_.resize(static_cast<std::size_t>(own * size()));
  exchange(in, send_bytes, received_.data(), receive_bytes, what);
  std::vector<const std::byte*> sources;
  for (int r = 0; r < size(); ++r) sources.push_back(received_.data() + own * r);
  reduce_elements(sources, block_elements[static_cast<std::size_t>(rank())], type, op, out);
}

}  // namespace autopar::runtime
