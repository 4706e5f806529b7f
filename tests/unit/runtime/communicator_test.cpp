#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <thread>

#include "graph/error.h"
#include "runtime/comm/thread_communicator.h"

using namespace autopar;
using namespace autopar::runtime;
using Catch::Matchers::Contains;
using graph::DataType;

namespace {

/// Runs a function on every rank; rethrows what the first failing rank threw.
void on_ranks(int ranks, const std::function<void(Communicator&)>& work,
              std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  auto worlds = make_thread_communicators(ranks, timeout);
  std::vector<std::exception_ptr> errors(worlds.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < worlds.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          work(*worlds[r]);
        } catch (...) {
          errors[r] = std::current_exception();
          worlds[r]->abort();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

template <typename T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

void require(bool holds) {
  if (!holds) throw std::runtime_error("a collective gave a wrong value");
}

}  // namespace

TEST_CASE("collectives among threads give every rank what a loop says") {
  const int ranks = GENERATE(1, 2, 3, 4, 7);
  const auto n = static_cast<std::size_t>(ranks);
  for (const std::size_t elements :
       {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{1000}}) {
    on_ranks(ranks, [&](Communicator& world) {
      const auto me = static_cast<std::size_t>(world.rank());
      const auto value = [](std::size_t rank, std::size_t i) {
        return static_cast<float>(rank * 1000 + i % 13);
      };
      // all-reduce
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::mean}) {
        std::vector<float> data(elements);
        for (std::size_t i = 0; i < elements; ++i) data[i] = value(me, i);
        world.all_reduce(bytes_of(data), static_cast<std::int64_t>(elements), DataType::float32,
                         op);
        for (std::size_t i = 0; i < elements; ++i) {
          float sum = 0;
          for (std::size_t r = 0; r < n; ++r) sum += value(r, i);
          const float expected = op == ReduceOp::sum    ? sum
                                 : op == ReduceOp::mean ? sum / static_cast<float>(n)
                                 : op == ReduceOp::max  ? value(n - 1, i)
                                                        : value(0, i);
          require(data[i] == expected);
        }
      }
      // all-gather of uneven blocks, and its reverse, reduce-scatter
      std::vector<std::int64_t> blocks;
      std::vector<std::int64_t> block_bytes;
      for (std::size_t r = 0; r < n; ++r) {
        blocks.push_back(static_cast<std::int64_t>(elements * (r % 3)));
        block_bytes.push_back(blocks.back() * 4);
      }
      std::vector<float> mine(static_cast<std::size_t>(blocks[me]));
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(me, i);
      std::size_t total = 0;
      for (const auto block : blocks) total += static_cast<std::size_t>(block);
      std::vector<float> all(total);
      world.all_gather(bytes_of(mine), bytes_of(all), block_bytes);
      std::size_t at = 0;
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(blocks[r]); ++i) {
          require(all[at++] == value(r, i));
        }
      }
      std::vector<float> share(mine.size());
      world.reduce_scatter(bytes_of(all), bytes_of(share), blocks, DataType::float32,
                           ReduceOp::sum);
      for (std::size_t i = 0; i < share.size(); ++i) {
        require(share[i] == static_cast<float>(n) * value(me, i));
      }
      // all-to-all: rank s sends s + r + 1 elements to rank r
      std::vector<std::int64_t> send;
      std::vector<std::int64_t> receive;
      std::vector<std::int32_t> out;
      std::size_t received = 0;
      for (std::size_t r = 0; r < n; ++r) {
        send.push_back(static_cast<std::int64_t>((me + r + 1) * 4));
        receive.push_back(send.back());
        for (std::size_t i = 0; i < me + r + 1; ++i) out.push_back(static_cast<int>(me * 100 + r));
        received += me + r + 1;
      }
      std::vector<std::int32_t> in(received);
      world.all_to_all(bytes_of(out), send, bytes_of(in), receive);
      at = 0;
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < me + r + 1; ++i) {
          require(in[at++] == static_cast<int>(r * 100 + me));
        }
      }
      // broadcast
      std::vector<std::int64_t> word = {world.rank() == ranks - 1 ? 42 : 0};
      world.broadcast(bytes_of(word), 8, ranks - 1);
      require(word[0] == 42);
    });
  }
}

TEST_CASE("subgroups work side by side") {
  on_ranks(4, [](Communicator& world) {
    const std::vector<int> members = world.rank() % 2 == 0 ? std::vector{0, 2} : std::vector{3, 1};
    const auto group = world.subgroup(members);
    require(group->size() == 2);
    std::vector<std::int64_t> sum = {world.rank()};
    group->all_reduce(bytes_of(sum), 1, DataType::int64, ReduceOp::sum);
    require(sum[0] == (world.rank() % 2 == 0 ? 2 : 4));
  });
}

TEST_CASE("half types add in float32") {
  on_ranks(3, [](Communicator& world) {
    std::vector<std::uint16_t> data = {0x3C00, 0x7BFF};  // 1 and the largest finite binary16
    if (world.rank() == 1) data[1] = 0xFBFF;
    world.all_reduce(bytes_of(data), 2, DataType::float16, ReduceOp::sum);
    require(data[0] == 0x4200);  // 3
    require(data[1] == 0x7BFF);  // no overflow on the way
  });
}

TEST_CASE("a rank that never comes ends the others with an error that names it") {
  const auto work = [](Communicator& world) {
    if (world.rank() != 2) world.barrier();
  };
  CHECK_THROWS_WITH(on_ranks(4, work, std::chrono::milliseconds(100)),
                    Contains("barrier") && (Contains("rank(s) 2") || Contains("another rank")));
}

TEST_CASE("a rank that fails ends the others at once") {
  CHECK_THROWS_WITH(on_ranks(3,
                             [](Communicator& world) {
                               if (world.rank() == 0) throw Error("the cause");
                               world.barrier();
                             }),
                    Contains("the cause"));
}
