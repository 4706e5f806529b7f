// The stand-in for NCCL: ranks as threads and as processes, against loops; what it refuses; ranks
// that never come.

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "emulation.h"
#include "emulation_nccl.h"
#include "nccl.h"
#include "runtime/kernels/common/half.h"

using namespace autopar;

namespace {

using Clock = std::chrono::steady_clock;

/// Catch's macros are for one thread: ranks throw instead.
void expect(bool holds, const char* what, int line) {
  if (!holds) throw std::runtime_error("line " + std::to_string(line) + ": " + what);
}
#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__, __LINE__)

/// Runs `body` for each rank in a thread of its own, on the device of its number.
void run_ranks(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        EXPECT(cudaSetDevice(rank) == cudaSuccess);
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank);
    CHECK(errors[static_cast<std::size_t>(rank)] == "");
  }
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

ncclComm_t init(int ranks, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  EXPECT(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
  return comm;
}

/// Whether shared memory has the name of the id: while its communicator is made.
bool has_segment(const ncclUniqueId& id) {
  const int file = shm_open((std::string("/") + id.internal).c_str(), O_RDONLY, 0);
  if (file >= 0) close(file);
  return file >= 0;
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  return state;
}

ncclResult_t wait_while_in_progress(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    state = state_of(comm);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return state;
}

template <typename T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    EXPECT(cudaMalloc(&data_, std::max<std::size_t>(1, count_ * sizeof(T))) == cudaSuccess);
    EXPECT(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) ==
           cudaSuccess);
  }
  Buffer(std::size_t count, T value) : Buffer(std::vector<T>(count, value)) {}
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    EXPECT(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) ==
           cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

class Stream {
 public:
  Stream() { EXPECT(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { EXPECT(cudaStreamSynchronize(stream_) == cudaSuccess); }
  /// Whether all is done within `time`; never waits for others.
  bool is_done_within(std::chrono::milliseconds time) const {
    const auto end = Clock::now() + time;
    do {
      const cudaError_t status = cudaStreamQuery(stream_);
      if (status == cudaSuccess) return true;
      EXPECT(status == cudaErrorNotReady);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } while (Clock::now() < end);
    return false;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

constexpr std::chrono::milliseconds soon(50);

int element(int rank, std::size_t i) {
  return static_cast<int>((static_cast<std::size_t>(rank) * 5 + i * 3 + i / 7) % 13) + 1;
}

template <typename T>
std::vector<T> elements(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(element(rank, i));
  return values;
}

int reduced(int ranks, std::size_t i, ncclRedOp_t op) {
  int result = element(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int other = element(rank, i);
    if (op == ncclMax) result = std::max(result, other);
    if (op == ncclMin) result = std::min(result, other);
    if (op == ncclProd) result *= other;
    if (op == ncclSum || op == ncclAvg) result += other;
  }
  return op == ncclAvg ? result / ranks : result;
}

/// Counts: none, odd ones, and one that takes several chunks of shared memory.
constexpr std::size_t counts[] = {0, 1, 5, 1000, 200001};

/// Each rank runs `body` with a communicator of all ranks.
void run_members(int ranks, const std::function<void(int rank, ncclComm_t comm)>& body) {
  const ncclUniqueId id = new_id();
  run_ranks(ranks, [&](int rank) {
    const ncclComm_t comm = init(ranks, id, rank);
    body(rank, comm);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
  });
}

template <typename T>
void check_all_reduce(ncclDataType_t type) {
  run_members(3, [type](int rank, ncclComm_t comm) {
    const Stream stream;
    for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
      if (op == ncclProd && sizeof(T) == 1) continue;
      const std::size_t count = 100;
      const Buffer<T> send(elements<T>(rank, count));
      const Buffer<T> receive(count, T{});
      EXPECT(ncclAllReduce(send.data(), receive.data(), count, type, op, comm, stream) ==
             ncclSuccess);
      stream.wait();
      const std::vector<T> values = receive.values();
      for (std::size_t i = 0; i < count; ++i) {
        if (op == ncclAvg && std::is_floating_point_v<T>) {
          const T mean = static_cast<T>(reduced(3, i, ncclSum)) / T{3};
          EXPECT(values[i] == Approx(mean));
        } else {
          EXPECT(values[i] == static_cast<T>(reduced(3, i, op)));
        }
      }
    }
  });
}

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

TEST_CASE("fake NCCL reduces every type in every way") {
  check_all_reduce<std::int8_t>(ncclInt8);
  check_all_reduce<std::uint8_t>(ncclUint8);
  check_all_reduce<std::int32_t>(ncclInt32);
  check_all_reduce<std::uint32_t>(ncclUint32);
  check_all_reduce<std::int64_t>(ncclInt64);
  check_all_reduce<std::uint64_t>(ncclUint64);
  check_all_reduce<float>(ncclFloat32);
  check_all_reduce<double>(ncclFloat64);
}

TEST_CASE("fake NCCL rounds sums of half types at every step") {
  run_members(3, [](int rank, ncclComm_t comm) {
    // 2048 + 1 is 2048 in float16, twice; 256 + 1 is 256 in bfloat16.
    const Stream stream;
    using Bits = std::vector<std::uint16_t>;
    const Buffer<std::uint16_t> half(
        Bits{runtime::to_float16(rank == 0 ? 2048.0F : 1.0F).bits, runtime::to_float16(3).bits});
    const Buffer<std::uint16_t> brain(
        Bits{runtime::to_bfloat16(rank == 0 ? 256.0F : 1.0F).bits, runtime::to_bfloat16(3).bits});
    EXPECT(ncclAllReduce(half.data(), half.data(), 2, ncclFloat16, ncclSum, comm, stream) ==
           ncclSuccess);
    EXPECT(ncclAllReduce(brain.data(), brain.data(), 2, ncclBfloat16, ncclSum, comm, stream) ==
           ncclSuccess);
    stream.wait();
    EXPECT(to_float(runtime::Float16{half.values()[0]}) == 2048);
    EXPECT(to_float(runtime::Float16{half.values()[1]}) == 9);
    EXPECT(to_float(runtime::BFloat16{brain.values()[0]}) == 256);
    EXPECT(to_float(runtime::BFloat16{brain.values()[1]}) == 9);
  });
}

TEST_CASE("fake NCCL runs every collective, in place and not, for any count") {
  for (const int ranks : {1, 2, 4}) {
    run_members(ranks, [ranks](int rank, ncclComm_t comm) {
      const Stream stream;
      const auto n = static_cast<std::size_t>(ranks);
      const auto me = static_cast<std::size_t>(rank);
      for (const std::size_t count : counts) {
        const int root = ranks - 1;
        const std::vector<float> mine = elements<float>(rank, count);
        const Buffer<float> send(mine);

        const Buffer<float> reduced_in_place(mine);
        EXPECT(ncclAllReduce(reduced_in_place.data(), reduced_in_place.data(), count, ncclFloat,
                             ncclSum, comm, stream) == ncclSuccess);
        const Buffer<float> at_root(count, -1);
        EXPECT(ncclReduce(send.data(), rank == root ? at_root.data() : nullptr, count, ncclFloat,
                          ncclMax, root, comm, stream) == ncclSuccess);
        const Buffer<float> from_root(count, -1);
        EXPECT(ncclBroadcast(rank == root ? send.data() : nullptr, from_root.data(), count,
                             ncclFloat, root, comm, stream) == ncclSuccess);
        const Buffer<float> gathered(n * count, -1);
        EXPECT(ncclAllGather(send.data(), gathered.data(), count, ncclFloat, comm, stream) ==
               ncclSuccess);
        std::vector<float> own_block(n * count, -1);
        std::copy(mine.begin(), mine.end(),
                  own_block.begin() + static_cast<std::ptrdiff_t>(me * count));
        const Buffer<float> gathered_in_place(own_block);
        EXPECT(ncclAllGather(gathered_in_place.data() + me * count, gathered_in_place.data(), count,
                             ncclFloat, comm, stream) == ncclSuccess);
        const Buffer<float> blocks(elements<float>(rank, n * count));
        const Buffer<float> scattered(count, -1);
        EXPECT(ncclReduceScatter(blocks.data(), scattered.data(), count, ncclFloat, ncclSum, comm,
                                 stream) == ncclSuccess);
        EXPECT(ncclReduceScatter(blocks.data(), blocks.data() + me * count, count, ncclFloat,
                                 ncclSum, comm, stream) == ncclSuccess);
        stream.wait();

        const std::vector<float> last = elements<float>(root, count);
        EXPECT(from_root.values() == last);
        EXPECT(gathered.values() == gathered_in_place.values());
        const auto sums = reduced_in_place.values();
        const auto most = at_root.values();
        const auto all = gathered.values();
        const auto block = scattered.values();
        const auto in_place = blocks.values();
        for (std::size_t i = 0; i < count; ++i) {
          EXPECT(sums[i] == static_cast<float>(reduced(ranks, i, ncclSum)));
          EXPECT(most[i] == (rank == root ? static_cast<float>(reduced(ranks, i, ncclMax)) : -1));
          const auto share = static_cast<float>(reduced(ranks, me * count + i, ncclSum));
          EXPECT(block[i] == share);
          EXPECT(in_place[me * count + i] == share);
          for (std::size_t peer = 0; peer < n; ++peer) {
            EXPECT(all[peer * count + i] == static_cast<float>(element(static_cast<int>(peer), i)));
          }
        }
      }
    });
  }
}

TEST_CASE("fake NCCL exchanges uneven blocks between all ranks in one group") {
  constexpr int ranks = 3;
  // What `from` sends to `to`: nothing here and there, and several chunks.
  const auto count = [](int from, int to) {
    return static_cast<std::size_t>((from * 7 + to * 3) % 4) * 15001;
  };
  run_members(ranks, [&](int rank, ncclComm_t comm) {
    const Stream stream;
    std::vector<std::unique_ptr<Buffer<std::int64_t>>> sent;
    std::vector<std::unique_ptr<Buffer<std::int64_t>>> received;
    ncclGroupStart();
    for (int peer = 0; peer < ranks; ++peer) {
      sent.push_back(std::make_unique<Buffer<std::int64_t>>(
          elements<std::int64_t>(rank * ranks + peer, count(rank, peer))));
      received.push_back(std::make_unique<Buffer<std::int64_t>>(count(peer, rank), -1));
      EXPECT(ncclSend(sent.back()->data(), count(rank, peer), ncclInt64, peer, comm, stream) ==
             ncclSuccess);
      EXPECT(ncclRecv(received.back()->data(), count(peer, rank), ncclInt64, peer, comm, stream) ==
             ncclSuccess);
    }
    EXPECT(ncclGroupEnd() == ncclSuccess);
    stream.wait();
    for (int peer = 0; peer < ranks; ++peer) {
      EXPECT(received[static_cast<std::size_t>(peer)]->values() ==
             elements<std::int64_t>(peer * ranks + rank, count(peer, rank)));
    }
  });
}

TEST_CASE("fake NCCL keeps the order of messages between two ranks, and defers nested groups") {
  run_members(2, [](int rank, ncclComm_t comm) {
    const Stream stream;
    const int peer = 1 - rank;
    constexpr std::size_t messages = 64;
    constexpr std::size_t count = 20000;  // two chunks of shared memory each
    const Buffer<int> send(elements<int>(rank, messages * count));
    const Buffer<int> receive(messages * count, -1);
    ncclGroupStart();
    ncclGroupStart();
    for (std::size_t i = 0; i < messages; ++i) {
      EXPECT(ncclRecv(receive.data() + i * count, count, ncclInt, peer, comm, stream) ==
             ncclSuccess);
    }
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(stream.is_done_within(std::chrono::milliseconds(1)));  // nothing is queued yet
    for (std::size_t i = 0; i < messages; ++i) {
      EXPECT(ncclSend(send.data() + i * count, count, ncclInt, peer, comm, stream) == ncclSuccess);
    }
    EXPECT(ncclGroupEnd() == ncclSuccess);
    stream.wait();
    EXPECT(receive.values() == elements<int>(peer, messages * count));
  });
}

TEST_CASE("fake NCCL hangs where two ranks send to one another outside a group") {
  const ncclUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    const ncclComm_t comm = init(2, id, rank);
    const Stream stream;
    const Buffer<int> data(1, rank);
    EXPECT(ncclSend(data.data(), 1, ncclInt, 1 - rank, comm, stream) == ncclSuccess);
    EXPECT(ncclRecv(data.data(), 1, ncclInt, 1 - rank, comm, stream) == ncclSuccess);
    EXPECT(!stream.is_done_within(soon));
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    stream.wait();
  });
}

TEST_CASE("fake NCCL splits by colour and orders by key") {
  run_members(4, [](int rank, ncclComm_t comm) {
    const Stream stream;
    ncclComm_t pair = nullptr;
    EXPECT(ncclCommSplit(comm, rank / 2, -rank, &pair, nullptr) == ncclSuccess);
    int value = -1;
    EXPECT(ncclCommCount(pair, &value) == ncclSuccess);
    EXPECT(value == 2);
    EXPECT(ncclCommUserRank(pair, &value) == ncclSuccess);
    EXPECT(value == 1 - rank % 2);
    EXPECT(ncclCommCuDevice(pair, &value) == ncclSuccess);
    EXPECT(value == rank);
    const Buffer<int> mine(1, rank);
    const Buffer<int> all(2, -1);
    EXPECT(ncclAllGather(mine.data(), all.data(), 1, ncclInt, pair, stream) == ncclSuccess);
    stream.wait();
    EXPECT(all.values() == std::vector<int>{rank / 2 * 2 + 1, rank / 2 * 2});
    EXPECT(ncclCommDestroy(pair) == ncclSuccess);

    ncclComm_t odd = comm;
    EXPECT(ncclCommSplit(comm, rank % 2 == 1 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &odd, nullptr) ==
           ncclSuccess);
    EXPECT((odd == nullptr) == (rank % 2 == 0));
    if (odd != nullptr) EXPECT(ncclCommDestroy(odd) == ncclSuccess);

    // Two splits in one group.
    ncclComm_t rows = nullptr;
    ncclComm_t columns = nullptr;
    ncclGroupStart();
    EXPECT(ncclCommSplit(comm, rank / 2, rank, &rows, nullptr) == ncclSuccess);
    EXPECT(ncclCommSplit(comm, rank % 2, rank, &columns, nullptr) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(ncclAllReduce(mine.data(), mine.data(), 1, ncclInt, ncclSum, rows, stream) ==
           ncclSuccess);
    EXPECT(ncclAllReduce(mine.data(), mine.data(), 1, ncclInt, ncclSum, columns, stream) ==
           ncclSuccess);
    stream.wait();
    EXPECT(mine.values()[0] == 6);
    EXPECT(ncclCommDestroy(rows) == ncclSuccess);
    EXPECT(ncclCommDestroy(columns) == ncclSuccess);
  });
}

TEST_CASE(
    "fake NCCL executes one communicator's work in order of the calls, whatever the streams") {
  for (int seed = 1; seed <= 5; ++seed) {
    emulation::set_seed(static_cast<std::uint64_t>(seed));
    run_members(2, [](int rank, ncclComm_t comm) {
      const Stream streams[2];
      std::vector<std::unique_ptr<Buffer<int>>> data;
      for (int i = 0; i < 6; ++i) {
        data.push_back(std::make_unique<Buffer<int>>(static_cast<std::size_t>(i + 1), rank + i));
        // Sums and maxima in turn: another order would be found out.
        EXPECT(ncclAllReduce(data.back()->data(), data.back()->data(),
                             static_cast<std::size_t>(i + 1), ncclInt, i % 2 ? ncclMax : ncclSum,
                             comm, streams[(i + rank) % 2]) == ncclSuccess);
      }
      for (const Stream& stream : streams) stream.wait();
      EXPECT(state_of(comm) == ncclSuccess);
      for (int i = 0; i < 6; ++i) {
        EXPECT(data[static_cast<std::size_t>(i)]->values()[0] == (i % 2 ? 1 + i : 1 + 2 * i));
      }
    });
  }
}

TEST_CASE("fake NCCL is captured, replayed, and destroyed after the graph alone") {
  run_members(2, [](int rank, ncclComm_t comm) {
    const Stream stream;
    const Stream other;
    const Buffer<int> data(3, rank + 1);
    cudaEvent_t fork = nullptr;
    cudaEvent_t join = nullptr;
    EXPECT(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
    EXPECT(cudaEventCreateWithFlags(&join, cudaEventDisableTiming) == cudaSuccess);
    EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    EXPECT(ncclAllReduce(data.data(), data.data(), 3, ncclInt, ncclSum, comm, stream) ==
           ncclSuccess);
    EXPECT(cudaEventRecord(fork, stream) == cudaSuccess);
    EXPECT(cudaStreamWaitEvent(other, fork, 0) == cudaSuccess);
    EXPECT(ncclAllReduce(data.data(), data.data(), 3, ncclInt, ncclMax, comm, other) ==
           ncclSuccess);
    EXPECT(cudaEventRecord(join, other) == cudaSuccess);
    EXPECT(cudaStreamWaitEvent(stream, join, 0) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
    EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
    EXPECT(data.values()[0] == rank + 1);
    for (int replay = 0; replay < 3; ++replay) {
      EXPECT(cudaGraphLaunch(exec, stream) == cudaSuccess);
    }
    // Eager work on another stream, after a capture there.
    EXPECT(ncclAllReduce(data.data(), data.data(), 3, ncclInt, ncclMax, comm, stream) ==
           ncclSuccess);
    stream.wait();
    EXPECT(data.values() == std::vector<int>(3, 3 * 2 * 2));
    EXPECT(cudaGetLastError() == cudaSuccess);

    EXPECT(ncclCommFinalize(comm) == ncclInvalidUsage);
    EXPECT(ncclCommDestroy(comm) == ncclInvalidUsage);
    EXPECT(cudaGraphExecDestroy(exec) == cudaSuccess);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
  });
}

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
