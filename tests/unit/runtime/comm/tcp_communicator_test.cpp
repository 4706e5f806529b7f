#include "runtime/comm/tcp_communicator.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "conformance/communicator_conformance.h"
#include "unit/runtime/comm/tcp_world.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// Runs each rank in a process of its own; their exit statuses, as waitpid gives them. A rank that
/// throws exits with 1.
std::vector<int> statuses_of(const std::vector<Rendezvous>& ranks,
                             const std::function<void(HostCommunicator&)>& work) {
  std::vector<pid_t> children;
  for (const Rendezvous& rank : ranks) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 0;
      try {
        work(*make_tcp_communicator(rank));
      } catch (const std::exception&) {
        code = 1;
      }
      _exit(code);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) waitpid(child, &statuses.emplace_back(), 0);
  return statuses;
}

/// How many steps processes have taken, which others wait for, a minute at most.
class SharedSteps {
 public:
  SharedSteps()
      : memory_(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        taken_(new (memory_) std::atomic<int>(0)) {}
  ~SharedSteps() { munmap(memory_, sizeof(std::atomic<int>)); }
  SharedSteps(const SharedSteps&) = delete;
  SharedSteps& operator=(const SharedSteps&) = delete;

  void take() const { ++*taken_; }
  void wait_for(int steps) const {
    for (int turn = 0; turn < 60'000 && *taken_ < steps; ++turn) std::this_thread::sleep_for(1ms);
  }

 private:
  void* memory_;
  std::atomic<int>* taken_;
};

bool throws_on_check(HostCommunicator& world) {
  try {
    world.check_members();
    return false;
  } catch (const Error&) {
    return true;
  }
}

void wait_until_another_fails(HostCommunicator& world) {
  while (!throws_on_check(world)) std::this_thread::sleep_for(1ms);
}

void conform(HostCommunicator& world) { check_conformance(world); }

}  // namespace

TEST_CASE("ranks that met over TCP conform to what a communicator must do") {
  const int ranks = GENERATE(1, 2, 3, 4, 6, 7);
  CHECK(errors_of(rendezvous_of(ranks), conform) ==
        std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("processes that met over TCP conform to what a communicator must do") {
  CHECK(statuses_of(rendezvous_of(3), conform) == std::vector<int>(3, 0));
}

TEST_CASE("messages larger than any buffer go both ways at once") {
  const auto errors = errors_of(rendezvous_of(3), [](HostCommunicator& world) {
    constexpr std::int64_t length = 24'000'000;
    const std::vector<std::int64_t> blocks(3, length);
    std::vector<std::byte> in(3 * length);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<std::byte>(i / length * 16 + static_cast<std::size_t>(world.rank()));
    }
    std::vector<std::byte> out(3 * length);
    world.all_to_all(in.data(), blocks, out.data(), blocks);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto from = i / length;
      if (out[i] != static_cast<std::byte>(world.rank() * 16 + static_cast<int>(from))) {
        fail("byte {} is wrong", i);
      }
    }
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("over TCP, messages of other lengths end both ranks, and one names both") {
  const auto errors = errors_of(rendezvous_of(2), [](HostCommunicator& world) {
    std::vector<std::byte> data(8);
    if (world.rank() == 0) {
      world.send(data.data(), 8, 1);
      world.barrier();
    } else {
      world.receive(data.data(), 4, 0);
    }
  });
  CHECK_THAT(errors[1],
             Contains("rank 1 is at a message of 4 bytes, but rank 0 at a message of 8"));
  CHECK(!errors[0].empty());
}

TEST_CASE("over TCP, a rank that never sends or receives ends the one that waits for it") {
  const auto errors = errors_of(impatient_ranks(3, 300ms), [](HostCommunicator& world) {
    std::byte data{};
    if (world.rank() == 1) world.receive(&data, 1, 2);
    wait_until_another_fails(world);
  });
  CHECK(errors[1] == "rank 1: a receive waited 300 ms for rank(s) 2; they did not come");
}

TEST_CASE("over TCP, nobody accuses a rank that waits for another itself") {
  const int ranks = GENERATE(3, 5);
  CHECK(errors_of(impatient_ranks(ranks, 2s), [](HostCommunicator& world) {
          check_blame(world);
        }) == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("over TCP, a rank that works is waited for, and one that hangs is named") {
  const int collective = GENERATE(range(0, num_collectives));
  CAPTURE(collective);
  CHECK(errors_of(impatient_ranks(3, 2s), [&](HostCommunicator& world) {
          check_signs(world, collective);
        }) == std::vector<std::string>(3));
}

TEST_CASE("over TCP, a rank's own failure ends what its other threads wait in") {
  const auto errors = errors_of(rendezvous_of(2), [](HostCommunicator& world) {
    if (world.rank() == 1) {
      std::byte data{};
      world.receive(&data, 1, 0);
    }
    std::string receiving;
    {
      const std::jthread receiver([&] {
        try {
          std::byte data{};
          world.receive(&data, 1, 1);
        } catch (const Error& error) {
          receiving = error.what();
        }
      });
      std::this_thread::sleep_for(50ms);
      world.abort();
    }
    throw Error(receiving);
  });
  CHECK_THAT(errors[0], Contains("rank 0: a receive was given up: this rank failed"));
  CHECK_THAT(errors[1], Contains("rank 1: a receive was given up: another rank failed (rank 0)"));
}

TEST_CASE("a process that is killed ends the others at once, and they name it") {
  const auto start = std::chrono::steady_clock::now();
  const auto statuses = statuses_of(rendezvous_of(4), [](HostCommunicator& world) {
    const auto pair =
        world.subgroup(std::vector<int>{world.rank() / 2 * 2, world.rank() / 2 * 2 + 1});
    try {
      for (int turn = 0; turn < 10; ++turn) world.barrier();
      if (world.rank() == 2) std::raise(SIGKILL);
      while (true) pair->barrier();  // ranks 0 and 1 have nothing to do with rank 2
    } catch (const Error& error) {
      const std::string_view text = error.what();
      if (!text.starts_with(fmt::format("rank {}: barrier ", world.rank())) ||
          text.find("rank 2") == std::string_view::npos) {
        throw;
      }
    }
  });
  CHECK(WIFSIGNALED(statuses[2]));
  CHECK(statuses[0] == 0);
  CHECK(statuses[1] == 0);
  CHECK(statuses[3] == 0);
  CHECK(std::chrono::steady_clock::now() - start < 20s);
}

TEST_CASE("a rank that misses a killed one by other means tells the others whom it misses") {
  constexpr int all_are_connected = 4;
  constexpr int rank_1_has_told = 5;
  const SharedSteps steps;
  const auto statuses = statuses_of(rendezvous_of(4), [&](HostCommunicator& world) {
    world.barrier();
    steps.take();
    steps.wait_for(all_are_connected);
    if (world.rank() == 3) std::raise(SIGKILL);
    std::string error;
    try {
      if (world.rank() == 1) {
        for (int turn = 0; turn < 30; ++turn) world.await_cause();
      } else {
        steps.wait_for(rank_1_has_told);
        world.check_members();  // of all that has come, rank 1's word is before rank 3's end
      }
    } catch (const Error& cause) {
      error = cause.what();
    }
    world.abort();
    if (world.rank() == 1) steps.take();
    const bool is_first = error == "rank 1: the run was given up: rank 3 died or cannot be reached";
    if (world.rank() == 1 ? !is_first : error.find("rank 3") == std::string::npos)
      throw Error(error);
  });
  CHECK(WIFSIGNALED(statuses[3]));
  for (const std::size_t rank : {0, 1, 2}) CHECK(statuses[rank] == 0);
}

TEST_CASE("a rank that misses another one, of which nobody tells, goes on and is waited for") {
  const auto errors = errors_of(impatient_ranks(2, 4s), [](HostCommunicator& world) {
    if (world.rank() == 1) world.await_cause();
    world.barrier();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a rank that does not come to a collective is named at the timeout") {
  const auto errors = errors_of(impatient_ranks(3, 500ms), [](HostCommunicator& world) {
    if (world.rank() == 2) wait_until_another_fails(world);
    world.barrier();
  });
  const std::string both = errors[0] + errors[1];
  CHECK_THAT(both, Contains("barrier waited 500 ms for rank(s) 2; they did not come"));
  CHECK_THAT(errors[0], Contains("2"));
  CHECK_THAT(errors[1], Contains("2"));
  CHECK_THAT(errors[2], Contains("rank 2: barrier was given up: rank") &&
                            Contains("waited too long for this rank"));
}

TEST_CASE("a rank that waits itself is not blamed by those who wait for it") {
  // Rank 0 waits for rank 1, which waits, from a little later on, for rank 2, which is stopped.
  constexpr auto timeout = 4s;
  const auto errors = errors_of(impatient_ranks(3, timeout), [&](HostCommunicator& world) {
    std::byte data{};
    if (world.rank() == 0) world.receive(&data, 1, 1);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(timeout / 4);
      world.receive(&data, 1, 2);
    }
    wait_until_another_fails(world);
    world.barrier();
  });
  const std::string blame = "a receive waited 4000 ms for rank(s) 2; they did not come";
  CHECK(errors[0] == "rank 0: " + blame);
  CHECK(errors[1] == "rank 1: a receive was given up: rank 0 waited too long for rank 2");
  CHECK_THAT(errors[2], Contains("rank 2: barrier was given up: rank") &&
                            Contains("waited too long for this rank"));
}

TEST_CASE("of several that are missing, those are named that do not wait themselves") {
  constexpr auto timeout = 4s;
  const auto errors = errors_of(impatient_ranks(3, timeout), [&](HostCommunicator& world) {
    std::byte data{};
    if (world.rank() == 0) world.barrier();
    if (world.rank() == 1) {
      std::this_thread::sleep_for(timeout / 4);
      world.receive(&data, 1, 2);
    }
    wait_until_another_fails(world);
    world.barrier();
  });
  CHECK(errors[0] == "rank 0: barrier waited 4000 ms for rank(s) 2; they did not come");
  CHECK(errors[1] == "rank 1: a receive was given up: rank 0 waited too long for rank 2");
}

TEST_CASE("ranks that wait for each other end all the same") {
  const auto errors = errors_of(impatient_ranks(2, 300ms), [](HostCommunicator& world) {
    std::byte data{};
    world.receive(&data, 1, 1 - world.rank());
  });
  CHECK_THAT(errors[0] + errors[1], Contains("a receive waited") && Contains("they did not come"));
  CHECK(!errors[0].empty());
  CHECK(!errors[1].empty());
}

TEST_CASE("a barrier may have a longer timeout than other collectives") {
  const auto errors = errors_of(impatient_ranks(2, 500ms), [](HostCommunicator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(1200ms);
    world.barrier(1min);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a rank that fails ends the others at once, and they name it") {
  const bool says_so = GENERATE(true, false);
  const auto errors = errors_of(rendezvous_of(3), [&](HostCommunicator& world) {
    world.barrier();
    if (world.rank() == 1) {
      if (says_so) world.abort();
      throw Error("the cause");
    }
    const auto alone = world.subgroup(std::vector<int>{world.rank()});
    wait_until_another_fails(*alone);
    world.barrier(10min);
  });
  CHECK(errors[1] == "the cause");
  CHECK(errors[0] == "rank 0: barrier was given up: another rank failed (rank 1)");
  CHECK(errors[2] == "rank 2: barrier was given up: another rank failed (rank 1)");
}

TEST_CASE("a rank that has given up throws at every later call") {
  const auto errors = errors_of(rendezvous_of(2), [](HostCommunicator& world) {
    const auto pair = world.subgroup(std::vector<int>{0, 1});
    world.abort();
    std::byte value{};
    pair->broadcast(&value, 1, world.rank());
  });
  for (const std::string& error : errors) CHECK_THAT(error, Contains("was given up"));
}

TEST_CASE("a rank that is done is missed by those only who need it") {
  const auto errors = errors_of(rendezvous_of(3), [](HostCommunicator& world) {
    if (world.rank() == 0) return;
    const auto others = world.subgroup(std::vector<int>{1, 2});
    std::this_thread::sleep_for(50ms);
    for (int turn = 0; turn < 3; ++turn) others->barrier();
    others->check_members();
    others->barrier();
  });
  CHECK(errors == std::vector<std::string>(3));
  const bool asks = GENERATE(true, false);
  const auto late = errors_of(rendezvous_of(2), [&](HostCommunicator& world) {
    if (world.rank() == 0) return;
    while (asks) world.check_members();
    world.barrier();
  });
  CHECK(late[0].empty());
  CHECK_THAT(late[1], Contains("needs rank 0, which is done already"));
}

TEST_CASE("ranks at different collectives are told so") {
  const auto errors = errors_of(rendezvous_of(2), [](HostCommunicator& world) {
    if (world.rank() == 0) return world.barrier();
    std::int64_t mine = 0;
    std::vector<std::int64_t> all(2);
    world.all_gather(reinterpret_cast<std::byte*>(&mine), reinterpret_cast<std::byte*>(all.data()),
                     std::vector<std::int64_t>{8, 8});
  });
  CHECK_THAT(errors[0] + errors[1],
             Contains("rank 0 is at barrier of 0 bytes, but rank 1 at all-gather of 8") ||
                 Contains("rank 1 is at all-gather of 8 bytes, but rank 0 at barrier of 0"));
}
