// Each rank knows what every other rank holds, so that it computes what it must receive by a plain
// loop and compares. Values are small whole numbers: exact in every type, whatever the order.

#include "conformance/communicator_conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/ranks.h"

namespace autopar {

namespace {

using graph::DataType;
using runtime::GivenUp;
using runtime::HostCommunicator;
using runtime::ReduceOp;

using Bytes = std::vector<std::byte>;
using Counts = std::vector<std::int64_t>;

template <typename... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// How a small whole number lies in memory, by type. Half types: the table is IEEE 754's.
Bytes encode(DataType type, std::int64_t number) {
  const auto as = [](auto value) {
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  switch (type) {
    case DataType::float32:
      return as(static_cast<float>(number));
    case DataType::float64:
      return as(static_cast<double>(number));
    case DataType::bfloat16: {
      const auto wide = static_cast<float>(number);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &wide, sizeof bits);
      return as(static_cast<std::uint16_t>(bits >> 16));
    }
    case DataType::float16: {
      if (number == 0) return as(std::uint16_t{0});
      int exponent = 0;
      while ((number >> (exponent + 1)) != 0) ++exponent;
      const std::int64_t fraction = (number - (std::int64_t{1} << exponent)) << (10 - exponent);
      return as(static_cast<std::uint16_t>(((exponent + 15) << 10) + fraction));
    }
    case DataType::int8:
    case DataType::uint8:
      return as(static_cast<std::uint8_t>(number));
    case DataType::int16:
    case DataType::uint16:
      return as(static_cast<std::uint16_t>(number));
    case DataType::int32:
    case DataType::uint32:
      return as(static_cast<std::uint32_t>(number));
    default:
      return as(number);
  }
}

/// Element i of rank r's tensor: up to 12, different on every rank for most i.
std::int64_t element(int rank, std::int64_t i) { return (rank * 5 + i * 3 + i / 7) % 13; }

Bytes tensor_of(int rank, DataType type, std::int64_t begin, std::int64_t end) {
  Bytes bytes;
  for (std::int64_t i = begin; i < end; ++i) {
    const Bytes one = encode(type, element(rank, i));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

/// `ranks` tells whose tensors are reduced. Means are asked of multiples alone.
std::int64_t reduced(const std::vector<int>& ranks, std::int64_t i, ReduceOp op) {
  std::int64_t sum = 0;
  std::int64_t most = 0;
  std::int64_t least = 1000;
  for (const int rank : ranks) {
    sum += element(rank, i);
    most = std::max(most, element(rank, i));
    least = std::min(least, element(rank, i));
  }
  if (op == ReduceOp::max) return most;
  return op == ReduceOp::min ? least : sum;
}

constexpr std::array reducible = {DataType::float32,  DataType::float64, DataType::float16,
                                  DataType::bfloat16, DataType::int8,    DataType::uint8,
                                  DataType::int16,    DataType::uint16,  DataType::int32,
                                  DataType::uint32,   DataType::int64,   DataType::uint64};
constexpr std::array exact_ops = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};

/// One group at work: the communicator, and the world ranks of its members in order.
class Group {
 public:
  Group(HostCommunicator& communicator, std::vector<int> members, Reductions reductions)
      : communicator_(communicator), members_(std::move(members)), reductions_(reductions) {
    expect(communicator_.size() == static_cast<int>(members_.size()), "a group of {} has size {}",
           members_.size(), communicator_.size());
    const int rank = communicator_.rank();
    expect(rank >= 0 && rank < communicator_.size(), "rank {} of {}", rank, communicator_.size());
    me_ = members_[at(rank)];
  }

  void check_all() const {
    for (const std::int64_t elements : {0, 1, 5, 100}) {
      for (const DataType type : reducible) {
        if (!is_reduced(type)) continue;
        for (const ReduceOp op : exact_ops) {
          all_reduce(type, elements, op);
          reduce_scatter(type, uneven(elements), op);
        }
      }
      for (const ReduceOp op : exact_ops) reduce_scatter(DataType::float32, even(elements), op);
      all_gather(uneven(elements));
      all_gather(even(elements));
      broadcast(elements);
    }
    mean();
    all_to_all();
    communicator_.barrier();
  }

  void all_reduce(DataType type, std::int64_t elements, ReduceOp op) const {
    Bytes data = tensor_of(me_, type, 0, elements);
    const Bytes expected = reduced_tensor(type, 0, elements, op);
    Bytes reduced(data.size());
    communicator_.all_reduce(data.data(), reduced.data(), elements, type, op);
    expect(reduced == expected, "all-reduce of {} {}", elements, name_of(type));
    expect(data == tensor_of(me_, type, 0, elements), "what an all-reduce reads stays");
    communicator_.all_reduce(data.data(), data.data(), elements, type, op);
    expect(data == expected, "all-reduce in place of {} {}", elements, name_of(type));
  }

  void reduce_scatter(DataType type, const Counts& blocks, ReduceOp op) const {
    const auto [begin, end] = range_of(blocks, communicator_.rank());
    const std::int64_t total = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
    const Bytes data = tensor_of(me_, type, 0, total);
    Bytes mine(at(graph::bytes_of(type, end - begin)));
    communicator_.reduce_scatter(data.data(), mine.data(), blocks, type, op);
    expect(mine == reduced_tensor(type, begin, end, op), "reduce-scatter of {} {}", total,
           name_of(type));
  }

  void all_gather(const Counts& blocks) const {
    const auto [begin, end] = range_of(blocks, communicator_.rank());
    Bytes expected;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const auto [from, to] = range_of(blocks, static_cast<int>(r));
      const Bytes block = tensor_of(members_[r], DataType::uint8, from, to);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    const Bytes mine = tensor_of(me_, DataType::uint8, begin, end);
    Bytes all(expected.size());
    communicator_.all_gather(mine.data(), all.data(), blocks);
    expect(all == expected, "all-gather of {} bytes", all.size());
  }

  /// Rank s sends s + 2r elements to rank r, nothing to itself where s is 0.
  void all_to_all() const {
    Counts send;
    Counts receive;
    Bytes out;
    Bytes expected;
    const int rank = communicator_.rank();
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      send.push_back(rank + 2 * peer);
      receive.push_back(peer + 2 * rank);
      const Bytes there = tensor_of(me_, DataType::uint8, peer, peer + send.back());
      const Bytes here =
          tensor_of(members_[at(peer)], DataType::uint8, rank, rank + receive.back());
      out.insert(out.end(), there.begin(), there.end());
      expected.insert(expected.end(), here.begin(), here.end());
    }
    Bytes in(expected.size());
    communicator_.all_to_all(out.data(), send, in.data(), receive);
    expect(in == expected, "all-to-all of {} bytes", in.size());
  }

  void broadcast(std::int64_t bytes) const {
    for (int root = 0; root < communicator_.size(); ++root) {
      Bytes data = tensor_of(me_, DataType::uint8, 0, bytes);
      communicator_.broadcast(data.data(), bytes, root);
      expect(data == tensor_of(members_[at(root)], DataType::uint8, 0, bytes),
             "broadcast of {} bytes from rank {}", bytes, root);
    }
  }

  /// The mean of numbers whose sum is a multiple of the group's size.
  void mean() const {
    const int size = communicator_.size();
    const int rank = communicator_.rank();
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                DataType::bfloat16, DataType::int32}) {
      Bytes data = encode(type, rank == 0 ? 3 * size : 0);
      communicator_.all_reduce(data.data(), data.data(), 1, type, ReduceOp::mean);
      expect(data == encode(type, 3), "mean of {}", name_of(type));
    }
  }

  Counts even(std::int64_t elements) const { return Counts(members_.size(), elements); }

  /// Every third block is empty.
  Counts uneven(std::int64_t elements) const {
    Counts blocks;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      blocks.push_back(r % 3 == 1 ? 0 : elements + static_cast<std::int64_t>(r));
    }
    return blocks;
  }

 private:
  bool is_reduced(DataType type) const {
    return reductions_ == Reductions::ours || graph::is_floating_point(type) ||
           graph::bits_of(type) != 16;
  }

  static std::pair<std::int64_t, std::int64_t> range_of(const Counts& blocks, int rank) {
    const std::int64_t begin =
        std::accumulate(blocks.begin(), blocks.begin() + rank, std::int64_t{0});
    return {begin, begin + blocks[at(rank)]};
  }

  Bytes reduced_tensor(DataType type, std::int64_t begin, std::int64_t end, ReduceOp op) const {
    Bytes bytes;
    for (std::int64_t i = begin; i < end; ++i) {
      const Bytes one = encode(type, reduced(members_, i, op));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return bytes;
  }

  HostCommunicator& communicator_;
  std::vector<int> members_;
  Reductions reductions_;
  int me_ = 0;
};

/// The members of this rank's group where the world is a mesh of `rows` rows: those in its row, or
/// in its column.
std::vector<int> mesh_group(int world, int rows, int rank, bool along_row) {
  const int columns = world / rows;
  std::vector<int> members;
  for (int other = 0; other < world; ++other) {
    const bool same =
        along_row ? other / columns == rank / columns : other % columns == rank % columns;
    if (same) members.push_back(other);
  }
  return members;
}

/// Groups along both axes of every mesh, all of them at work at the same time, and none in step
/// with the others.
void check_mesh_groups(HostCommunicator& world, Reductions reductions) {
  for (int rows = 1; rows <= world.size(); ++rows) {
    if (world.size() % rows != 0) continue;
    const auto row_members = mesh_group(world.size(), rows, world.rank(), true);
    const auto column_members = mesh_group(world.size(), rows, world.rank(), false);
    const auto row = world.subgroup(row_members);
    const auto column = world.subgroup(column_members);
    const Group in_row(*row, row_members, reductions);
    const Group in_column(*column, column_members, reductions);
    for (int turn = 0; turn < 2; ++turn) {
      in_row.check_all();
      in_column.check_all();
    }
  }
}

/// A group may order its ranks as it likes: blocks come in the group's order, and in that order its
/// own groups count its ranks.
void check_order_of_members(HostCommunicator& world, Reductions reductions) {
  std::vector<int> members(at(world.size()));
  std::iota(members.rbegin(), members.rend(), 0);
  const auto reversed = world.subgroup(members);
  Group(*reversed, members, reductions).check_all();

  const int half = world.size() / 2;
  const bool is_in_front = reversed->rank() < half;
  std::vector<int> ranks(at(is_in_front ? half : world.size() - half));
  std::iota(ranks.begin(), ranks.end(), is_in_front ? 0 : half);
  std::vector<int> of_world;
  for (const int rank : ranks) of_world.push_back(members[at(rank)]);
  const auto part = reversed->subgroup(ranks);
  Group(*part, of_world, reductions).check_all();
}

/// Longer than what an implementation may hold in one buffer or send at once.
void check_long_messages(HostCommunicator& world, Reductions reductions) {
  std::vector<int> all(at(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const Group group(world, all, reductions);
  constexpr std::int64_t elements = 300'007;
  group.all_reduce(DataType::float32, elements, ReduceOp::sum);
  group.reduce_scatter(DataType::float64, group.uneven(elements), ReduceOp::max);
  group.all_gather(group.uneven(elements));
  group.broadcast(elements);
}

/// Half types add in float32: the sum does not overflow on the way, and all ranks have its bits.
void check_half_precision(HostCommunicator& world) {
  const auto largest = std::uint16_t{0x7BFF};
  std::uint16_t value = world.rank() == 1 ? largest | 0x8000U : world.rank() < 3 ? largest : 0U;
  world.all_reduce(reinterpret_cast<std::byte*>(&value), reinterpret_cast<std::byte*>(&value), 1,
                   DataType::float16, ReduceOp::sum);
  const bool cancels = world.size() >= 3;
  if (cancels || world.size() == 1) expect(value == largest, "sum of halves is {:#x}", value);
}

/// Sums whose last bits depend on the order are the same on all ranks: those of rank order.
void check_order_of_sums(HostCommunicator& world) {
  const auto value_of = [](int rank) { return std::array{1e8F, 1.F, -1e8F, 0.3F}[at(rank % 4)]; };
  float expected = value_of(0);
  for (int rank = 1; rank < world.size(); ++rank) expected += value_of(rank);
  float sum = value_of(world.rank());
  world.all_reduce(reinterpret_cast<std::byte*>(&sum), reinterpret_cast<std::byte*>(&sum), 1,
                   DataType::float32, ReduceOp::sum);
  expect(sum == expected, "the sum is {} on rank {}, and {} in rank order", sum, world.rank(),
         expected);
}

/// A world in which nobody has failed, and barriers of both kinds.
void check_health(HostCommunicator& world) {
  world.check_members();
  world.barrier(std::chrono::seconds(60));
  world.check_members();
  world.barrier();
}

/// Content that tells sender, receiver and number of a message.
Bytes message(int from, int to, int number, std::int64_t bytes) {
  Bytes content(at(bytes));
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] =
        static_cast<std::byte>(from * 31 + to * 17 + number * 7 + static_cast<int>(i % 251));
  return content;
}

void send_message(HostCommunicator& world, int to, int number, std::int64_t bytes) {
  Bytes content = message(world.rank(), to, number, bytes);
  world.send(content.data(), bytes, to);
  std::ranges::fill(content, std::byte{0xFF});  // it may be changed now
}

void receive_message(HostCommunicator& world, int from, int number, std::int64_t bytes) {
  Bytes content(at(bytes));
  world.receive(content.data(), bytes, from);
  expect(content == message(from, world.rank(), number, bytes),
         "message {} of {} bytes from rank {} to rank {}", number, bytes, from, world.rank());
}

constexpr std::array<std::int64_t, 6> message_bytes = {5, 0, 1, 4096, 3'000'017, 64};

/// Runs both, each in a thread of its own; rethrows what one of them throws.
void run_both(const std::function<void()>& one, const std::function<void()>& other) {
  std::exception_ptr error;
  {
    const std::jthread thread([&] {
      try {
        other();
      } catch (...) {
        error = std::current_exception();
      }
    });
    one();
  }
  if (error) std::rethrow_exception(error);
}

/// Down a chain of ranks, and to all later ones: what a pipeline does.
void check_messages(HostCommunicator& world) {
  const int me = world.rank();
  for (int number = 0; number < std::ssize(message_bytes); ++number) {
    for (int from = 0; from < me; ++from)
      receive_message(world, from, number, message_bytes[at(number)]);
    for (int to = me + 1; to < world.size(); ++to)
      send_message(world, to, number, message_bytes[at(number)]);
  }
}

/// Each rank sends to the next one and receives from the one before, at the same time.
void check_ring(HostCommunicator& world) {
  if (world.size() == 1) return;
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  run_both(
      [&] {
        for (int number = 0; number < 2 * std::ssize(message_bytes); ++number)
          send_message(world, next, number, message_bytes[at(number % std::ssize(message_bytes))]);
      },
      [&] {
        for (int number = 0; number < 2 * std::ssize(message_bytes); ++number)
          receive_message(world, before, number,
                          message_bytes[at(number % std::ssize(message_bytes))]);
      });
}

/// Messages go both ways while the ranks are in collectives of the same communicator and of a
/// subgroup.
void check_messages_beside_collectives(HostCommunicator& world, Reductions reductions) {
  std::vector<int> all(at(world.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> half;
  for (const int rank : all)
    if (rank % 2 == world.rank() % 2) half.push_back(rank);
  const auto subgroup = world.subgroup(half);
  const Group group(world, all, reductions);
  const Group of_half(*subgroup, half, reductions);
  run_both(
      [&] {
        for (int turn = 0; turn < 20; ++turn) {
          group.all_reduce(DataType::float32, 1000 * turn, ReduceOp::sum);
          of_half.all_gather(of_half.uneven(1000));
          group.all_to_all();
        }
      },
      [&] { check_ring(world); });
  world.barrier();
}

void check_local_ranks(HostCommunicator& world) {
  const runtime::LocalRanks local = runtime::local_ranks(world);
  expect(local.rank == world.rank() && local.count == world.size(),
         "rank {} of {} on one machine is {} of {}", world.rank(), world.size(), local.rank,
         local.count);
  for (int rank = 0; rank < world.size(); ++rank)
    expect(local.in_world.at(at(rank)) == rank, "rank {} is at place {} of its machine",
           local.in_world.at(at(rank)), rank);
}

}  // namespace

void check_conformance(HostCommunicator& world, Reductions reductions, Callers callers) {
  std::vector<int> all(at(world.size()));
  std::iota(all.begin(), all.end(), 0);
  Group(world, all, reductions).check_all();
  check_mesh_groups(world, reductions);
  check_order_of_members(world, reductions);
  check_long_messages(world, reductions);
  if (reductions == Reductions::ours) {
    check_half_precision(world);
    check_order_of_sums(world);
  }
  check_messages(world);
  if (callers == Callers::several_threads) {
    check_ring(world);
    check_messages_beside_collectives(world, reductions);
  }
  check_local_ranks(world);
  check_health(world);
}

namespace {

/// As a rank that hangs, but ends when the others give up, by what check_members() throws.
[[noreturn]] void look_on(HostCommunicator& world) {
  while (true) {
    world.check_members();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void check_blame(HostCommunicator& world) {
  const int last = world.size() - 1;
  const int rank = world.rank();
  expect(last >= 2, "a wait for a rank that waits takes three ranks");
  const std::array<int, 2> first_two = {0, 1};
  const auto pair = rank < 2 ? world.subgroup(first_two) : nullptr;
  world.barrier();
  // Each waits for the next one, and begins before that does, so that its timeout is over first.
  // The last does not come, and looks on until the others give up.
  std::this_thread::sleep_for(rank * std::chrono::milliseconds(100));
  std::byte data{};
  try {
    if (rank == 0)
      pair->barrier();
    else if (rank < last)
      world.receive(&data, 1, rank + 1);
    if (rank == last) look_on(world);
  } catch (const GivenUp&) {
    return;
  } catch (const Error& error) {
    const bool names_last =
        std::string_view(error.what()).find(fmt::format("rank(s) {};", last)) != std::string::npos;
    const bool is_told = std::string_view(error.what()).find("given up") != std::string::npos;
    expect(rank == last ? is_told : names_last,
           "rank {} says '{}' when rank {} alone does not come", rank, error.what(), last);
    return;
  }
  expect(false, "rank {} got what nobody sent", rank);
}

namespace {

/// A collective among all, or a message from the last rank to each other one, or from each to it.
void call_collective(HostCommunicator& world, int number) {
  const Counts one(at(world.size()), 1);
  std::vector<std::byte> in(at(world.size()));
  std::vector<std::byte> out(at(world.size()));
  const int last = world.size() - 1;
  switch (number) {
    case 0:
      return world.barrier();
    case 1:
      return world.all_reduce(in.data(), in.data(), world.size(), DataType::uint8, ReduceOp::sum);
    case 2:
      return world.all_gather(in.data(), out.data(), one);
    case 3:
      return world.reduce_scatter(in.data(), out.data(), one, DataType::uint8, ReduceOp::sum);
    case 4:
      return world.all_to_all(in.data(), one, out.data(), one);
    case 5:
      return world.broadcast(in.data(), 1, last);
    case 6:
      if (world.rank() != last) return world.receive(in.data(), 1, last);
      break;
    default:
      if (world.rank() != last) return world.send(in.data(), std::ssize(in), last);
      break;
  }
  for (int rank = 0; rank < last; ++rank) {
    if (number == 6) world.send(in.data(), 1, rank);
    if (number == 7) world.receive(out.data(), std::ssize(out), rank);
  }
}

}  // namespace

void check_signs(HostCommunicator& world, int collective) {
  using Clock = std::chrono::steady_clock;
  const int last = world.size() - 1;
  expect(last >= 2, "a rank that is named to another one takes three ranks");
  // Longer than any timeout that this is called with.
  const auto begin = Clock::now();
  while (world.rank() == last && Clock::now() - begin < std::chrono::seconds(5)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    world.note_work();
  }
  call_collective(world, collective);
  try {
    if (world.rank() == last) look_on(world);
    call_collective(world, collective);
    world.barrier();  // what is sent may leave before anybody takes it
  } catch (const GivenUp&) {
    return;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const bool names_last = text.find(fmt::format("rank(s) {};", last)) != std::string::npos;
    const bool is_told = text.find("given up") != std::string::npos;
    expect(world.rank() == last ? is_told : names_last, "rank {} says '{}' when rank {} hangs",
           world.rank(), text, last);
    return;
  }
  expect(false, "rank {} got what nobody sent", world.rank());
}

}  // namespace autopar
