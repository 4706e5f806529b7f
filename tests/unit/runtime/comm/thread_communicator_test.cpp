#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <thread>

#include "base/error.h"
#include "conformance/communicator_conformance.h"
#include "runtime/comm/reduce.h"
#include "runtime/comm/thread_communicator.h"
#include "unit/runtime/run_node.h"

using namespace autopar;
using namespace autopar::runtime;
using Catch::Matchers::Contains;

namespace {

/// Runs a function on every rank; rethrows what the first failing rank threw.
void on_ranks(int ranks, const std::function<void(HostCommunicator&)>& work,
              std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
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

}  // namespace

TEST_CASE("threads conform to what a communicator must do") {
  on_ranks(GENERATE(1, 2, 3, 4, 6, 7), [](HostCommunicator& world) { check_conformance(world); });
}

TEST_CASE("a rank that tells an absurd length of a list is not believed") {
  const std::int64_t told = GENERATE(as<std::int64_t>{}, -8, 3, 1LL << 40, 1LL << 62);
  const auto work = [&](HostCommunicator& world) {
    if (world.rank() == 1)
      gather_all(world, told);  // as gather_lists begins
    else
      gather_lists<int>(world, std::vector<int>{1, 2});
  };
  CHECK_THROWS_WITH(on_ranks(3, work),
                    Contains("rank 1 told of a list of " + std::to_string(told)));
}

TEST_CASE("a rank that never comes ends the others with an error that names it") {
  const auto work = [](HostCommunicator& world) {
    if (world.rank() != 2) world.barrier();
  };
  CHECK_THROWS_WITH(on_ranks(4, work, std::chrono::seconds(1)),
                    Contains("barrier") && (Contains("rank(s) 2") || Contains("another rank")));
}

TEST_CASE("threads do not accuse a rank that waits for another itself") {
  const int ranks = GENERATE(3, 5);
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  const auto work = [&](HostCommunicator& world) {
    try {
      check_blame(world);
    } catch (const std::exception& error) {
      wrong[static_cast<std::size_t>(world.rank())] = error.what();
    }
    world.abort();
  };
  on_ranks(ranks, work, std::chrono::seconds(2));
  for (const std::string& what : wrong) {
    INFO(what);
    CHECK(what.empty());
  }
}

TEST_CASE("threads wait for a rank that works, and name one that hangs, in every collective") {
  const int collective = GENERATE(range(0, num_collectives));
  std::vector<std::string> wrong(3);
  const auto work = [&](HostCommunicator& world) {
    try {
      check_signs(world, collective);
    } catch (const std::exception& error) {
      wrong[static_cast<std::size_t>(world.rank())] = error.what();
    }
    world.abort();
  };
  on_ranks(3, work, std::chrono::seconds(2));
  CAPTURE(collective);
  for (const std::string& what : wrong) {
    INFO(what);
    CHECK(what.empty());
  }
}

TEST_CASE("messages of other lengths than the receiver waits for end both ranks, which are named") {
  const auto work = [](HostCommunicator& world) {
    std::vector<std::byte> data(8);
    if (world.rank() == 0) world.send(data.data(), 8, 2);
    if (world.rank() == 2) world.receive(data.data(), 4, 0);
    if (world.rank() == 1) world.receive(data.data(), 4, 0);
  };
  CHECK_THROWS_WITH(on_ranks(3, work),
                    "rank 0 sends 8 bytes to rank 2, which waits for 4: were "
                    "both made for one plan?");
}

TEST_CASE("a rank that never sends or never receives ends the one that waits for it") {
  const auto waits = [](bool sends) {
    return [sends](HostCommunicator& world) {
      std::byte data{};
      if (world.rank() != 1) return;
      if (sends)
        world.send(&data, 1, 2);
      else
        world.receive(&data, 1, 2);
    };
  };
  CHECK_THROWS_WITH(on_ranks(3, waits(true), std::chrono::milliseconds(50)),
                    "rank 1: a send waited 50 ms for rank(s) 2; they did not come");
  CHECK_THROWS_WITH(on_ranks(3, waits(false), std::chrono::milliseconds(50)),
                    "rank 1: a receive waited 50 ms for rank(s) 2; they did not come");
}

TEST_CASE("a rank that fails ends those that send and receive at once") {
  CHECK_THROWS_WITH(on_ranks(3,
                             [](HostCommunicator& world) {
                               std::byte data{};
                               if (world.rank() == 2) {
                                 std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                 world.abort();
                               }
                               if (world.rank() == 0) world.send(&data, 1, 2);
                               if (world.rank() == 1) world.receive(&data, 1, 2);
                             }),
                    Contains("a send was given up: another rank failed"));
}

TEST_CASE("a rank that fails ends the others at once") {
  CHECK_THROWS_WITH(on_ranks(3,
                             [](HostCommunicator& world) {
                               if (world.rank() == 0) throw Error("the cause");
                               world.barrier();
                             }),
                    Contains("the cause"));
}

TEST_CASE("a barrier of threads may have a longer timeout than other collectives") {
  CHECK_NOTHROW(on_ranks(
      2,
      [](HostCommunicator& world) {
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        world.barrier(std::chrono::minutes(1));
      },
      std::chrono::milliseconds(50)));
}

TEST_CASE("threads that wait for something else learn of a rank that failed") {
  CHECK_THROWS_WITH(on_ranks(3,
                             [](HostCommunicator& world) {
                               if (world.rank() == 2) throw Error("the cause");
                               while (true) world.check_members();
                             }),
                    Contains("the run was given up: another rank failed"));
}

TEST_CASE("maxima and minima over ranks are NaN where any rank has NaN") {
  for (const graph::DataType type : testing::float_types)
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min})
      for (std::size_t of = 0; of < 3; ++of) {
        std::vector<graph::Tensor> ranks;
        std::vector<const std::byte*> sources;
        for (std::size_t rank = 0; rank < 3; ++rank) {
          const double first = rank == of ? std::nan("") : static_cast<double>(rank);
          ranks.push_back(testing::tensor_of(type, {2}, {first, static_cast<double>(rank)}));
        }
        for (const graph::Tensor& tensor : ranks) sources.push_back(tensor.data());
        graph::Tensor result = graph::Tensor::zeros(type, {2});
        reduce_elements(sources, 2, type, op, result.mutable_bytes().data());
        const std::vector<double> numbers = testing::doubles(result);
        CAPTURE(name_of(type), of);
        CHECK(std::isnan(numbers[0]));
        CHECK(numbers[1] == (op == ReduceOp::max ? 2 : 0));
      }
}
