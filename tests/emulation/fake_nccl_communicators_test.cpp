// The stand-in for NCCL: communicators that do not block, ranks that are processes, what it
// refuses, and ranks that never come.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl_ranks.h"

using namespace autopar;
using namespace autopar::fake_nccl_test;

namespace {

/// A port of this machine that nobody listens to.
std::string free_address() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(probe);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

/// The processes of a test: each runs `body` as one rank; true if all came to a good end.
bool run_processes(int ranks, const std::function<void(int rank)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // however a test fails, no process stays
      int status = 1;
      try {
        EXPECT(cudaSetDevice(rank) == cudaSuccess);
        body(rank);
        status = 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::_Exit(status);
    }
    children.push_back(child);
  }
  bool is_good = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    is_good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return is_good;
}
}  // namespace

TEST_CASE("fake NCCL's non-blocking communicators are in progress until they are asked") {
  const ncclUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    EXPECT(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress);
    EXPECT(comm != nullptr);
    int value = -1;
    EXPECT(ncclCommCount(comm, &value) == ncclInvalidArgument);
    EXPECT(state_of(comm) == ncclInProgress);
    EXPECT(wait_while_in_progress(comm) == ncclSuccess);
    EXPECT(ncclCommCount(comm, &value) == ncclSuccess);

    // The first collective connects: it is not in the stream before the communicator was asked.
    const Stream stream;
    const Buffer<int> data(1, rank);
    EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
           ncclInProgress);
    stream.wait();
    EXPECT(data.values()[0] == rank);
    EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
           ncclInvalidArgument);
    EXPECT(wait_while_in_progress(comm) == ncclSuccess);
    stream.wait();
    EXPECT(data.values()[0] == 1);
    EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
           ncclSuccess);
    stream.wait();
    EXPECT(data.values()[0] == 2);

    // The child is there once the parent is ready again, and inherits its ways.
    ncclComm_t child = nullptr;
    EXPECT(ncclCommSplit(comm, 0, rank, &child, nullptr) == ncclInProgress);
    EXPECT(child == nullptr);
    EXPECT(wait_while_in_progress(comm) == ncclSuccess);
    EXPECT(child != nullptr);
    EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, child, stream) ==
           ncclInProgress);
    EXPECT(wait_while_in_progress(child) == ncclSuccess);

    for (const ncclComm_t each : {child, comm}) {
      EXPECT(ncclCommFinalize(each) == ncclInProgress);
      EXPECT(wait_while_in_progress(each) == ncclSuccess);
      EXPECT(ncclCommDestroy(each) == ncclSuccess);
    }
    EXPECT(data.values()[0] == 4);
  });
}

TEST_CASE("fake NCCL's init waits for a rank that does not come until it is aborted") {
  for (const int rank : {0, 1}) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = new_id();
    REQUIRE(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress);
    for (int i = 0; i < 5; ++i) CHECK(state_of(comm) == ncclInProgress);
    CHECK(has_segment(id) == (rank == 0));
    CHECK(ncclCommAbort(comm) == ncclSuccess);
    CHECK_FALSE(has_segment(id));
  }
}

TEST_CASE("fake NCCL refuses two ranks on one device") {
  const bool is_new = GENERATE(false, true);
  if (is_new) emulation::tell_of_duplicates(emulation::DuplicateWords::since_2_30);
  const ncclUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    ncclComm_t comm = nullptr;
    EXPECT(ncclCommInitRank(&comm, 2, id, rank) == ncclInvalidUsage);
    EXPECT(std::string(ncclGetLastError(nullptr))
               .starts_with(is_new ? "Multiple Ranks are using" : "Duplicate GPU detected"));
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
  });
  emulation::clear_nccl_faults();
}

TEST_CASE("fake NCCL never ends the init of two ranks with one number, or of two sizes") {
  for (const bool is_size : {false, true}) {
    const ncclUniqueId id = new_id();
    std::barrier both_tried(2);
    run_ranks(2, [&](int thread) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm = nullptr;
      EXPECT(ncclCommInitRankConfig(&comm, is_size ? 2 + thread : 2, id, is_size ? thread : 0,
                                    &config) == ncclInProgress);
      const auto end = Clock::now() + soon;
      while (Clock::now() < end) EXPECT(state_of(comm) == ncclInProgress);
      both_tried.arrive_and_wait();
      EXPECT(ncclCommAbort(comm) == ncclSuccess);
    });
    CHECK(std::string(ncclGetLastError(nullptr)).starts_with("Bootstrap Root : "));
  }
}

TEST_CASE("fake NCCL refuses arguments that make no sense") {
  run_members(2, [](int rank, ncclComm_t comm) {
    const Stream stream;
    const Buffer<float> data(64, 1);
    std::vector<float> host(64);
    const auto all_reduce = [&](const void* from, void* to, std::size_t count, int type, int op,
                                ncclComm_t in, cudaStream_t on) {
      return ncclAllReduce(from, to, count, static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op), in, on);
    };
    float* p = data.data();
    EXPECT(all_reduce(p, p, 1, ncclFloat8e4m3, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(p, p, 1, ncclFloat, ncclNumOps, comm, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(p, p, 1, ncclFloat, ncclSum, nullptr, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(nullptr, p, 1, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(p, host.data(), 1, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(p, p, 65, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(all_reduce(p, p + 1, 8, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclAllGather(p, p + 1, 8, ncclFloat, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclReduceScatter(p, p + 1, 8, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclBroadcast(p, p, 1, ncclFloat, 2, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclSend(p, 1, ncclFloat, -1, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclGroupEnd() == ncclInvalidUsage);
    EXPECT(cudaSetDevice(1 - rank) == cudaSuccess);
    const Stream elsewhere;
    EXPECT(all_reduce(p, p, 1, ncclFloat, ncclSum, comm, elsewhere) == ncclUnhandledCudaError);
    EXPECT(cudaSetDevice(rank) == cudaSuccess);

    // An error spoils the whole group.
    ncclGroupStart();
    EXPECT(all_reduce(p, p, 1, ncclFloat, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(all_reduce(p, p, 1, ncclFloat, ncclNumOps, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclGroupEnd() == ncclInvalidArgument);
    EXPECT(stream.is_done_within(soon));
    EXPECT(data.values()[0] == 1);
    EXPECT(state_of(comm) == ncclSuccess);
  });
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, new_id(), 2) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, new_id(), 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(nullptr, 1, new_id(), 0) == ncclInvalidArgument);
  ncclConfig_t empty = {};
  CHECK(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &empty) == ncclInvalidArgument);
}

TEST_CASE("fake NCCL tells asynchronously when ranks call different collectives") {
  for (const int difference : {0, 1, 2, 3, 4}) {
    CAPTURE(difference);
    const ncclUniqueId id = new_id();
    run_ranks(2, [&](int rank) {
      const ncclComm_t comm = init(2, id, rank);
      const Stream stream;
      const Buffer<int> data(16, 1);
      const bool other = rank == 1;
      if (difference == 0 && other) {
        EXPECT(ncclBroadcast(data.data(), data.data(), 4, ncclInt, 0, comm, stream) == ncclSuccess);
      } else if (difference == 1) {
        EXPECT(ncclBroadcast(data.data(), data.data(), 4, ncclInt, rank, comm, stream) ==
               ncclSuccess);
      } else {
        EXPECT(ncclAllReduce(data.data(), data.data(), difference == 2 && other ? 5 : 4,
                             difference == 3 && other ? ncclFloat : ncclInt,
                             difference == 4 && other ? ncclMax : ncclSum, comm,
                             stream) == ncclSuccess);
      }
      stream.wait();
      EXPECT(state_of(comm) == ncclInvalidUsage);
      EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
             ncclInvalidUsage);
      EXPECT(ncclCommDestroy(comm) == ncclInvalidUsage);
      EXPECT(ncclCommAbort(comm) == ncclSuccess);
    });
  }
}

TEST_CASE("fake NCCL tells asynchronously when a receive expects another size") {
  const ncclUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    const ncclComm_t comm = init(2, id, rank);
    const Stream stream;
    const Buffer<int> data(16, 1);
    EXPECT((rank == 0 ? ncclSend(data.data(), 4, ncclInt, 1, comm, stream)
                      : ncclRecv(data.data(), 5, ncclInt, 0, comm, stream)) == ncclSuccess);
    stream.wait();
    EXPECT(state_of(comm) == ncclInvalidUsage);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
  });
}

TEST_CASE("fake NCCL waits for a rank that does not come, and an abort of another thread ends it") {
  const ncclUniqueId id = new_id();
  emulation::hang_at(1, 2);
  emulation::tell_peers_of_aborts(false);  // ranks end at different times
  std::atomic<int> aborted = 0;
  run_ranks(3, [&](int rank) {
    const ncclComm_t comm = init(3, id, rank);
    const Stream stream;
    const Buffer<int> data(1, 1);
    for (int i = 0; i < 2; ++i) {
      EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
             ncclSuccess);
    }
    stream.wait();
    EXPECT(data.values()[0] == 9);
    EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
           ncclSuccess);
    // Polling never blocks.
    EXPECT(!stream.is_done_within(soon));
    EXPECT(state_of(comm) == ncclSuccess);
    std::thread watchdog([&] {
      std::this_thread::sleep_for(soon);
      ++aborted;
      ncclCommAbort(comm);
    });
    stream.wait();
    EXPECT(aborted > 0);
    watchdog.join();
    EXPECT(data.values()[0] == 9);
  });
  emulation::clear_nccl_faults();
}

TEST_CASE("fake NCCL tells the others of an abort, if it shall, and leaves them waiting") {
  for (const bool tell : {true, false}) {
    emulation::tell_peers_of_aborts(tell);
    const ncclUniqueId id = new_id();
    run_ranks(2, [&](int rank) {
      const ncclComm_t comm = init(2, id, rank);
      const Stream stream;
      const Buffer<int> data(1, 1);
      if (rank == 0) {
        EXPECT(ncclCommAbort(comm) == ncclSuccess);
        EXPECT(ncclCommAbort(comm) == ncclInvalidArgument);
        return;
      }
      EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
             ncclSuccess);
      EXPECT(!stream.is_done_within(soon));
      EXPECT(state_of(comm) == (tell ? ncclRemoteError : ncclSuccess));
      EXPECT(ncclCommAbort(comm) == ncclSuccess);
      stream.wait();
    });
  }
  emulation::clear_nccl_faults();
}

TEST_CASE("fake NCCL's communicator fails asynchronously where a test wants it") {
  const ncclUniqueId id = new_id();
  emulation::fail_at(0, 1);
  emulation::tell_peers_of_aborts(false);  // ranks end at different times
  run_ranks(2, [&](int rank) {
    const ncclComm_t comm = init(2, id, rank);
    const Stream stream;
    const Buffer<int> data(1, 1);
    for (int i = 0; i < 2; ++i) {
      EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
             ncclSuccess);
    }
    EXPECT(!stream.is_done_within(soon));
    EXPECT(state_of(comm) == (rank == 0 ? ncclRemoteError : ncclSuccess));
    std::this_thread::sleep_for(soon);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    stream.wait();
    EXPECT(data.values()[0] == 2);
  });
  emulation::clear_nccl_faults();
}

TEST_CASE("fake NCCL makes the communicators of several devices in one thread's group") {
  const ncclUniqueId id = new_id();
  ncclComm_t comms[2] = {};
  ncclGroupStart();
  for (const int rank : {0, 1}) {
    REQUIRE(cudaSetDevice(rank) == cudaSuccess);
    REQUIRE(ncclCommInitRank(&comms[rank], 2, id, rank) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK_FALSE(has_segment(id));
  for (const int rank : {0, 1}) CHECK(ncclCommDestroy(comms[rank]) == ncclSuccess);
  CHECK(ncclCommDestroy(comms[0]) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("fake NCCL joins processes") {
  const ncclUniqueId id = new_id();
  CHECK(run_processes(3, [&](int rank) {
    const ncclComm_t comm = init(3, id, rank);
    const Stream stream;
    const Buffer<float> data(elements<float>(rank, 100000));
    EXPECT(ncclAllReduce(data.data(), data.data(), 100000, ncclFloat, ncclSum, comm, stream) ==
           ncclSuccess);
    ncclComm_t child = nullptr;
    EXPECT(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, rank, &child, nullptr) ==
           ncclSuccess);
    const Buffer<float> sum(1, 1);
    if (child != nullptr) {
      EXPECT(ncclAllReduce(sum.data(), sum.data(), 1, ncclFloat, ncclSum, child, stream) ==
             ncclSuccess);
    }
    stream.wait();
    EXPECT(sum.values()[0] == (rank == 1 ? 1 : 2));
    const std::vector<float> values = data.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT(values[i] == static_cast<float>(reduced(3, i, ncclSum)));
    }
    if (child != nullptr) EXPECT(ncclCommDestroy(child) == ncclSuccess);
    EXPECT(ncclCommFinalize(comm) == ncclSuccess);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
  }));
}

TEST_CASE("fake NCCL joins processes that know nothing but NCCL_COMM_ID, again and again") {
  setenv("NCCL_COMM_ID", free_address().c_str(), 1);
  for (int round = 0; round < 2; ++round) {
    CHECK(run_processes(2, [&](int rank) {
      ncclUniqueId id;
      EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
      if (rank == 0) std::this_thread::sleep_for(soon);
      const ncclComm_t comm = init(2, id, rank);
      const Stream stream;
      const Buffer<int> data(1, rank + 1);
      EXPECT(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclSum, comm, stream) ==
             ncclSuccess);
      stream.wait();
      EXPECT(data.values()[0] == 3);
      EXPECT(ncclCommDestroy(comm) == ncclSuccess);
    }));
  }
  // Rank 0 leaves its segment behind and dies; the next start goes on without it.
  CHECK(run_processes(1, [&](int) {
    ncclUniqueId id;
    EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    EXPECT(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  }));
  CHECK(run_processes(2, [&](int rank) {
    ncclUniqueId id;
    EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
    EXPECT(ncclCommDestroy(init(2, id, rank)) == ncclSuccess);
  }));
  setenv("NCCL_COMM_ID", "nonsense", 1);
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclInvalidArgument);
  unsetenv("NCCL_COMM_ID");
}

TEST_CASE("fake NCCL says so when the port of NCCL_COMM_ID is taken") {
  setenv("NCCL_COMM_ID", free_address().c_str(), 1);
  const ncclUniqueId id = new_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 0, &config) == ncclSystemError);
  CHECK(second == nullptr);
  CHECK(ncclCommAbort(first) == ncclSuccess);
  unsetenv("NCCL_COMM_ID");
}

TEST_CASE("fake NCCL names its version and errors") {
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == NCCL_VERSION_CODE);
  CHECK(std::string(ncclGetErrorString(ncclInProgress)) == "NCCL operation in progress");
  CHECK(std::string(ncclGetErrorString(ncclSuccess)) == "no error");
}
