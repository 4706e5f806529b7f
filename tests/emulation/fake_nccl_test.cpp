// The stand-in for NCCL: its collectives, by ranks that are threads, against loops.

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "nccl_ranks.h"
#include "runtime/kernels/common/half.h"

using namespace autopar;
using namespace autopar::fake_nccl_test;

namespace {

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
