#include "runtime/comm/transport_communicator.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/reduce.h"

namespace autopar::runtime {

/// Reduce-scatter of equal chunks, the last ones shorter, then all-gather of the reduced chunks.
void TransportCommunicator::all_reduce(std::byte* data, std::int64_t elements, graph::DataType type,
                                       ReduceOp op) {
  if (size() == 1) return;
  const std::int64_t longest = (elements + size() - 1) / size();
  const auto begin_of = [&](int rank) { return std::min(elements, longest * rank); };
  const auto bytes_of = [&](std::int64_t count) { return graph::bytes_of(type, count); };
  const std::int64_t own = begin_of(rank() + 1) - begin_of(rank());

  reset();
  for (int r = 0; r < size(); ++r) {
    const std::int64_t chunk = begin_of(r + 1) - begin_of(r);
    sends_[at(r)] = {data + bytes_of(begin_of(r)), bytes_of(chunk)};
    receives_[at(r)].bytes = bytes_of(own);
  }
  move_blocks("all-reduce");
  reduced_.resize(std::max(reduced_.size(), at(bytes_of(own))));
  reduce_received(own, type, op, reduced_.data());
  release("all-reduce");

  reset();
  for (int r = 0; r < size(); ++r) {
    const std::int64_t chunk = begin_of(r + 1) - begin_of(r);
    sends_[at(r)] = {reduced_.data(), bytes_of(own)};
    receives_[at(r)] = {data + bytes_of(begin_of(r)), bytes_of(chunk)};
  }
  move_blocks("all-reduce");
  release("all-reduce");
}

void TransportCommunicator::all_gather(const std::byte* in, std::byte* out,
                                       std::span<const std::int64_t> block_bytes) {
  reset();
  for (int r = 0; r < size(); ++r) {
    sends_[at(r)] = {in, block_bytes[at(rank())]};
    receives_[at(r)] = {out, block_bytes[at(r)]};
    out += block_bytes[at(r)];
  }
  move_blocks("all-gather");
  release("all-gather");
}

void TransportCommunicator::reduce_scatter(const std::byte* in, std::byte* out,
                                           std::span<const std::int64_t> block_elements,
                                           graph::DataType type, ReduceOp op) {
  const std::int64_t own = block_elements[at(rank())];
  reset();
  for (int r = 0; r < size(); ++r) {
    const std::int64_t bytes = graph::bytes_of(type, block_elements[at(r)]);
    sends_[at(r)] = {in, bytes};
    receives_[at(r)].bytes = graph::bytes_of(type, own);
    in += bytes;
  }
  move_blocks("reduce-scatter");
  reduce_received(own, type, op, out);
  release("reduce-scatter");
}

void TransportCommunicator::all_to_all(const std::byte* in,
                                       std::span<const std::int64_t> send_bytes, std::byte* out,
                                       std::span<const std::int64_t> receive_bytes) {
  reset();
  for (int r = 0; r < size(); ++r) {
    sends_[at(r)] = {in, send_bytes[at(r)]};
    receives_[at(r)] = {out, receive_bytes[at(r)]};
    in += send_bytes[at(r)];
    out += receive_bytes[at(r)];
  }
  move_blocks("all-to-all");
  release("all-to-all");
}

void TransportCommunicator::broadcast(std::byte* data, std::int64_t bytes, int root) {
  reset();
  if (rank() == root)
    std::ranges::fill(sends_, SendBlock{data, bytes});
  else
    receives_[at(root)] = {data, bytes};
  move_blocks("broadcast");
  release("broadcast");
}

void TransportCommunicator::reset() {
  sends_.assign(at(size()), {});
  receives_.assign(at(size()), {});
}

void TransportCommunicator::move_blocks(const char* what) {
  exchange(what, sends_, receives_);
  const SendBlock& sent = sends_[at(rank())];
  ReceiveBlock& received = receives_[at(rank())];
  received.place = received.out != nullptr ? received.out : sent.data;
  if (received.bytes > 0 && received.place != sent.data)
    std::memcpy(received.out, sent.data, at(received.bytes));
}

void TransportCommunicator::reduce_received(std::int64_t elements, graph::DataType type,
                                            ReduceOp op, std::byte* out) {
  sources_.clear();
  for (const ReceiveBlock& block : receives_) sources_.push_back(block.place);
  reduce_elements(sources_, elements, type, op, out);
}

void TransportCommunicator::provide_memory(std::span<ReceiveBlock> receives) {
  std::int64_t needed = 0;
  for (int r = 0; r < size(); ++r)
    if (r != rank() && receives[at(r)].out == nullptr)
      needed += std::max(receives[at(r)].bytes, std::int64_t{0});
  received_.resize(std::max(received_.size(), at(needed)));
  std::byte* next = received_.data();
  for (int r = 0; r < size(); ++r) {
    ReceiveBlock& block = receives[at(r)];
    if (r == rank()) continue;
    if (block.out == nullptr && block.bytes > 0) {
      block.out = next;
      next += block.bytes;
    }
    block.place = block.out;
  }
}

}  // namespace autopar::runtime
