#pragma once
// Ranks as threads, with what they exchange.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "emulation.h"
#include "emulation_nccl.h"
#include "nccl.h"

namespace autopar::fake_nccl_test {

using Clock = std::chrono::steady_clock;

/// Catch's macros are for one thread: ranks throw instead.
inline void expect(bool holds, const char* what, int line) {
  if (!holds) throw std::runtime_error("line " + std::to_string(line) + ": " + what);
}
#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__, __LINE__)

/// Runs `body` for each rank in a thread of its own, on the device of its number.
inline void run_ranks(int ranks, const std::function<void(int rank)>& body) {
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

inline ncclUniqueId new_id() {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

inline ncclComm_t init(int ranks, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  EXPECT(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
  return comm;
}

/// Whether shared memory has the name of the id: while its communicator is made.
inline bool has_segment(const ncclUniqueId& id) {
  const int file = shm_open((std::string("/") + id.internal).c_str(), O_RDONLY, 0);
  if (file >= 0) close(file);
  return file >= 0;
}

inline ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  return state;
}

inline ncclResult_t wait_while_in_progress(ncclComm_t comm) {
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

inline int element(int rank, std::size_t i) {
  return static_cast<int>((static_cast<std::size_t>(rank) * 5 + i * 3 + i / 7) % 13) + 1;
}

template <typename T>
std::vector<T> elements(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(element(rank, i));
  return values;
}

inline int reduced(int ranks, std::size_t i, ncclRedOp_t op) {
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
inline void run_members(int ranks, const std::function<void(int rank, ncclComm_t comm)>& body) {
  const ncclUniqueId id = new_id();
  run_ranks(ranks, [&](int rank) {
    const ncclComm_t comm = init(ranks, id, rank);
    body(rank, comm);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
  });
}

}  // namespace autopar::fake_nccl_test
