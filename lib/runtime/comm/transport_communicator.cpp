#include "runtime/comm/transport_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/comm/reduce.h"

namespace autopar::runtime {

namespace {

/// More than this goes from each rank straight to each other one, for what ranks hand on costs them
/// memory and copies, and in a scatter several times the bytes.
constexpr std::int64_t most_gathered_in_rounds = std::int64_t{16} << 20;
constexpr std::int64_t most_scattered_in_rounds = std::int64_t{1} << 20;

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
void TransportCommunicator::all_reduce(const std::byte* in, std::byte* out, std::int64_t elements,
                                       DataType type, ReduceOp op) {
  if (size() == 1) {
    if (in != out) std::copy_n(in, graph::bytes_of(type, elements), out);
    return;
  }
  const std::int64_t longest = (elements + size() - 1) / size();
  std::vector<std::int64_t> chunks(at(size()));  // in elements
  for (int r = 0; r < size(); ++r)
    chunks[at(r)] = std::clamp<std::int64_t>(elements - r * longest, 0, longest);
  // In place, a chunk is still read while it is reduced.
  std::byte* mine = out + graph::bytes_of(type, std::min(rank() * longest, elements));
  if (in == out) {
    reduced_.resize(std::max(reduced_.size(), at(graph::bytes_of(type, chunks[at(rank())]))));
    mine = reduced_.data();
  }
  scatter_reduced("all-reduce", in, mine, chunks, type, op);

  for (std::int64_t& chunk : chunks) chunk = graph::bytes_of(type, chunk);
  gather("all-reduce", mine, out, chunks);
}

void TransportCommunicator::all_gather(const std::byte* in, std::byte* out,
                                       BlockSizes block_bytes) {
  gather("all-gather", in, out, block_bytes);
}

void TransportCommunicator::gather(const char* what, const std::byte* in, std::byte* out,
                                   BlockSizes block_bytes) {
  if (takes_rounds() &&
      std::reduce(block_bytes.begin(), block_bytes.end()) <= most_gathered_in_rounds)
    return gather_in_rounds(what, in, out, block_bytes);
  move_blocks(what, [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {in, block_bytes[at(rank())]};
    received = {out, block_bytes[at(r)]};
    out += block_bytes[at(r)];
  });
  release(what);
}

/// Blocks lie from this rank's own on, and each round doubles how many there are.
void TransportCommunicator::gather_in_rounds(const char* what, const std::byte* in, std::byte* out,
                                             BlockSizes block_bytes) {
  const int n = size();
  std::vector<std::int64_t> begin(at(n) + 1);
  for (int i = 0; i < n; ++i) begin[at(i) + 1] = begin[at(i)] + block_bytes[at((rank() + i) % n)];
  std::vector<std::byte> blocks(at(begin.back()));
  std::copy_n(in, begin[1], blocks.begin());
  for (int have = 1; have < n; have *= 2) {
    const int more = std::min(have, n - have);
    const std::int64_t sent = begin[at(more)];
    const std::int64_t received = begin[at(have + more)] - begin[at(have)];
    std::byte* const place = blocks.data() + begin[at(have)];
    hand_on(what, have, -1, {blocks.data(), sent}, {place, received});
  }
  for (int r = 0; r < n; ++r) {
    const std::int64_t from = begin[at((r - rank() + n) % n)];
    out = std::copy_n(blocks.data() + from, block_bytes[at(r)], out);
  }
}

void TransportCommunicator::reduce_scatter(const std::byte* in, std::byte* out,
                                           BlockSizes block_elements, DataType type, ReduceOp op) {
  scatter_reduced("reduce-scatter", in, out, block_elements, type, op);
}

void TransportCommunicator::scatter_reduced(const char* what, const std::byte* in, std::byte* out,
                                            BlockSizes block_elements, DataType type, ReduceOp op) {
  const std::int64_t elements = std::reduce(block_elements.begin(), block_elements.end());
  const std::int64_t own = block_elements[at(rank())];
  if (takes_rounds() && graph::bytes_of(type, elements) <= most_scattered_in_rounds) {
    const std::vector<std::byte> parts = scatter_in_rounds(what, in, block_elements, type);
    sources_.clear();
    for (int r = 0; r < size(); ++r)
      sources_.push_back(parts.data() + r * graph::bytes_of(type, own));
    return reduce_elements(sources_, own, type, op, out);
  }
  move_blocks(what, [&](int r, SendBlock& sent, ReceiveBlock& received) {
    sent = {in, graph::bytes_of(type, block_elements[at(r)])};
    received.bytes = graph::bytes_of(type, own);
    in += sent.bytes;
  });
  sources_.clear();
  for (const ReceiveBlock& block : receives_) sources_.push_back(block.place);
  reduce_elements(sources_, own, type, op, out);
  release(what);
}

/// A block gets to the rank that it is for by those powers of two that make up how far on that is.
/// Returns each rank's part of this rank's block, in rank order.
std::vector<std::byte> TransportCommunicator::scatter_in_rounds(const char* what,
                                                                const std::byte* in,
                                                                BlockSizes block_elements,
                                                                DataType type) {
  const int n = size();
  const auto rank_from_here = [&](int distance) { return (rank() + distance + n) % n; };
  // By how far their ranks are from where they began.
  std::vector<std::vector<std::byte>> blocks(at(n));
  for (int r = 0; r < n; ++r) {
    const std::int64_t bytes = graph::bytes_of(type, block_elements[at(r)]);
    blocks[at((r - rank() + n) % n)].assign(in, in + bytes);
    in += bytes;
  }
  for (int hop = 1; hop < n; hop *= 2) {
    std::vector<std::byte> sent;
    std::int64_t received_bytes = 0;
    for (int distance = hop; distance < n; ++distance) {
      if ((distance & hop) == 0) continue;
      std::vector<std::byte>& block = blocks[at(distance)];
      sent.insert(sent.end(), block.begin(), block.end());
      // The one that comes in its place is from `hop` back, with all smaller hops behind it.
      const int goal = rank_from_here(distance - distance % hop - hop);
      block.resize(at(graph::bytes_of(type, block_elements[at(goal)])));
      received_bytes += std::ssize(block);
    }
    std::vector<std::byte> received(at(received_bytes));
    hand_on(what, hop, +1, {sent.data(), std::ssize(sent)}, {received.data(), received_bytes});
    auto next = received.cbegin();
    for (int distance = hop; distance < n; ++distance) {
      if ((distance & hop) == 0) continue;
      std::vector<std::byte>& block = blocks[at(distance)];
      std::copy_n(next, block.size(), block.begin());
      next += std::ssize(block);
    }
  }
  std::vector<std::byte> parts;
  for (int r = 0; r < n; ++r) {
    const std::vector<std::byte>& part = blocks[at((rank() - r + n) % n)];
    parts.insert(parts.end(), part.begin(), part.end());
  }
  return parts;
}

void TransportCommunicator::hand_on(const char* what, int distance, int direction, SendBlock sent,
                                    ReceiveBlock received) {
  const int n = size();
  sends_.assign(at(n), {});
  receives_.assign(at(n), {});
  sends_[at((rank() + direction * distance + n) % n)] = sent;
  receives_[at((rank() - direction * distance + n) % n)] = received;
  exchange(what, sends_, receives_);
  release(what);
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
