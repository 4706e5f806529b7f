#include "runtime/comm/transport_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/comm/reduce.h"

namespace autopar::runtime {

namespace {

/// Of all ranks together; more goes from each rank to each other one.
constexpr std::int64_t most_bytes_in_rounds = std::int64_t{1} << 20;

}  // namespace

template <typename Fill>
void TransportCommunicator::move_blocks(const char* what, const Fill& fill) {
  sends_.assign(at(size()), {});
  receives_.assign(at(size()), {});
  for (int r = 0; r < size(); ++r) fill(r, sends_[at(r)], receives_[at(r)]);
  exchange(what, sends_, receives_);
  const SendBlock& sent = sends_[at(rank())];
  ReceiveBlock& received = receives_[at(rank())];
  received.place = received.out != nullptr ? received.out : sent.data;
  if (received.bytes > 0 && received.place != sent.data)
    std::memcpy(received.out, sent.data, at(received.bytes));
}

/// Reduce-scatter of equal chunks, the last ones shorter, then all-gather of the reduced chunks.
void TransportCommunicator::all_reduce(std::byte* data, std::int64_t elements, DataType type,
                                       ReduceOp op) {
  if (size() == 1) return;
  if (takes_rounds() && graph::bytes_of(type, elements) * size() <= most_bytes_in_rounds)
    return reduce_gathered(data, elements, type, op);
  const std::int64_t longest = (elements + size() - 1) / size();
  const auto bytes_of = [&](std::int64_t count) { return graph::bytes_of(type, count); };
  const auto begin_of = [&](int rank) { return std::min(elements, longest * rank); };
  const auto chunk_of = [&](int rank) { return begin_of(rank + 1) - begin_of(rank); };
  const std::int64_t own = chunk_of(rank());

  move_blocks("all-reduce", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {data + bytes_of(begin_of(r)), bytes_of(chunk_of(r))};
    received.bytes = bytes_of(own);
  });
  reduced_.resize(std::max(reduced_.size(), at(bytes_of(own))));
  reduce_received(own, type, op, reduced_.data());
  release("all-reduce");

  move_blocks("all-reduce", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {reduced_.data(), bytes_of(own)};
    received = {data + bytes_of(begin_of(r)), bytes_of(chunk_of(r))};
  });
  release("all-reduce");
}

void TransportCommunicator::all_gather(const std::byte* in, std::byte* out,
                                       BlockSizes block_bytes) {
  if (takes_rounds() && std::reduce(block_bytes.begin(), block_bytes.end()) <= most_bytes_in_rounds)
    return gather_in_rounds(in, out, block_bytes);
  move_blocks("all-gather", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {in, block_bytes[at(rank())]};
    received = {out, block_bytes[at(r)]};
    out += block_bytes[at(r)];
  });
  release("all-gather");
}

/// Bruck's algorithm: blocks lie from this rank's own on, and each round doubles how many there
/// are.
void TransportCommunicator::gather_in_rounds(const std::byte* in, std::byte* out,
                                             BlockSizes block_bytes) {
  const int n = size();
  std::vector<std::int64_t> begin(at(n) + 1);
  for (int i = 0; i < n; ++i) begin[at(i) + 1] = begin[at(i)] + block_bytes[at((rank() + i) % n)];
  std::vector<std::byte> blocks(at(begin.back()));
  std::copy_n(in, begin[1], blocks.begin());
  for (int have = 1; have < n; have *= 2) {
    const int more = std::min(have, n - have);
    sends_.assign(at(n), {});
    receives_.assign(at(n), {});
    sends_[at((rank() - have + n) % n)] = {blocks.data(), begin[at(more)]};
    ReceiveBlock& received = receives_[at((rank() + have) % n)];
    received.out = blocks.data() + begin[at(have)];
    received.bytes = begin[at(have + more)] - begin[at(have)];
    exchange("all-gather", sends_, receives_);
    release("all-gather");
  }
  for (int r = 0; r < n; ++r) {
    const std::int64_t from = begin[at((r - rank() + n) % n)];
    out = std::copy_n(blocks.data() + from, block_bytes[at(r)], out);
  }
}

/// Small tensors: each rank gets all and reduces them itself, in the order of ranks as ever.
void TransportCommunicator::reduce_gathered(std::byte* data, std::int64_t elements, DataType type,
                                            ReduceOp op) {
  const std::int64_t bytes = graph::bytes_of(type, elements);
  std::vector<std::byte> all(at(bytes * size()));
  const std::vector<std::int64_t> blocks(at(size()), bytes);
  gather_in_rounds(data, all.data(), blocks);
  sources_.clear();
  for (int r = 0; r < size(); ++r) sources_.push_back(all.data() + r * bytes);
  reduce_elements(sources_, elements, type, op, data);
}

void TransportCommunicator::reduce_scatter(const std::byte* in, std::byte* out,
                                           BlockSizes block_elements, DataType type, ReduceOp op) {
  const std::int64_t own = block_elements[at(rank())];
  move_blocks("reduce-scatter", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {in, graph::bytes_of(type, block_elements[at(r)])};
    received.bytes = graph::bytes_of(type, own);
    in += sent.bytes;
  });
  reduce_received(own, type, op, out);
  release("reduce-scatter");
}

void TransportCommunicator::all_to_all(const std::byte* in, BlockSizes send_bytes, std::byte* out,
                                       BlockSizes receive_bytes) {
  move_blocks("all-to-all", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {in, send_bytes[at(r)]};
    received = {out, receive_bytes[at(r)]};
    in += sent.bytes;
    out += received.bytes;
  });
  release("all-to-all");
}

void TransportCommunicator::broadcast(std::byte* data, std::int64_t bytes, int root) {
  move_blocks("broadcast", [&](int r, SendBlock& sent, ReceiveBlock& received) {
    if (rank() == root)
      sent = {data, bytes};
    else if (r == root)
      received = {data, bytes};
  });
  release("broadcast");
}

void TransportCommunicator::reduce_received(std::int64_t elements, DataType type, ReduceOp op,
                                            std::byte* out) {
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
