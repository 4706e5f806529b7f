#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

template <typename... Parameters>
void load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, kernel);
}

/// The results over many seeds of `3 + 4` in one stream and `* 5` in another, ordered by an event
/// or not.
std::set<int> results_of_two_streams(bool with_event) {
  std::set<int> results;
  DeviceArray<int> value(1);
  Stream a, b;
  Event event;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    set_seed(seed);
    REQUIRE(cudaMemset(value.get(), 0, 4) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    launch({1, 1, 0, a.handle}, set, value.get(), 3);
    launch({1, 1, 0, a.handle}, add, value.get(), 4);
    if (with_event) {
      cudaEventRecord(event.handle, a.handle);
      cudaStreamWaitEvent(b.handle, event.handle);
    }
    launch({1, 1, 0, b.handle}, times, value.get(), 5);
    REQUIRE(cudaStreamSynchronize(a.handle) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b.handle) == cudaSuccess);
    results.insert(value.values()[0]);
  }
  return results;
}

TEST_CASE("streams run in any order that events allow") {
  reset();
  CHECK(results_of_two_streams(true) == std::set<int>{35});
  CHECK(results_of_two_streams(false) == std::set<int>{7, 19, 35});
  set_seed(1);
}

TEST_CASE("an event waited for is the one recorded before, even if it is recorded again") {
  reset();
  DeviceArray<int> value(std::vector<int>{0});
  Stream a, b;
  Event event;
  launch({1, 1, 0, a.handle}, set, value.get(), 1);
  cudaEventRecord(event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, event.handle);
  cudaEventRecord(event.handle, b.handle);
  launch({1, 1, 0, a.handle}, nothing);
  REQUIRE(cudaEventSynchronize(event.handle) == cudaSuccess);
  CHECK(value.values() == std::vector<int>{1});
}

TEST_CASE("queued work executes when it is waited for, and a query brings it on") {
  reset();
  Stream stream;
  Event event;
  for (int i = 0; i < 3; ++i) launch({1, 1, 0, stream.handle}, nothing);
  cudaEventRecord(event.handle, stream.handle);
  CHECK(counters().kernels == 0);
  CHECK(cudaEventQuery(event.handle) == cudaErrorNotReady);
  CHECK(counters().kernels == 1);
  CHECK(cudaStreamQuery(stream.handle) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream.handle) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event.handle) == cudaSuccess);
  CHECK(cudaStreamQuery(stream.handle) == cudaSuccess);
  CHECK(counters().kernels == 3);
}

TEST_CASE("the null stream orders itself with blocking streams alone") {
  reset();
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  DeviceArray<int> value(1);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    launch({1, 1, 0, blocking}, set, value.get(), 2);
    launch({}, add, value.get(), 3);
    launch({1, 1, 0, blocking}, times, value.get(), 4);
    REQUIRE(cudaStreamSynchronize(blocking) == cudaSuccess);
    REQUIRE(value.values() == std::vector<int>{20});
  }
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
  CHECK(cudaStreamDestroy(blocking) == cudaErrorInvalidResourceHandle);
  set_seed(1);
}

TEST_CASE("events measure time between them, if they may") {
  reset();
  Event start, end;
  cudaEvent_t untimed = nullptr;
  float milliseconds = -1;
  REQUIRE(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, end.handle) ==
        cudaErrorInvalidResourceHandle);
  static constexpr std::chrono::milliseconds nap(30);
  const auto began = std::chrono::steady_clock::now();
  cudaEventRecord(start.handle);
  REQUIRE(cudaLaunchHostFunc(
              nullptr, [](void*) { std::this_thread::sleep_for(nap); }, nullptr) == cudaSuccess);
  cudaEventRecord(end.handle);
  cudaEventRecord(untimed);
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, end.handle) == cudaErrorNotReady);
  REQUIRE(cudaEventSynchronize(end.handle) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, end.handle) == cudaSuccess);
  const std::chrono::duration<float, std::milli> elapsed = std::chrono::steady_clock::now() - began;
  CHECK(milliseconds >= static_cast<float>(nap.count()));
  CHECK(milliseconds <= elapsed.count());
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, untimed) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaEventDestroy(untimed) == cudaSuccess);
}

TEST_CASE("host functions run in stream order and may not call CUDA") {
  reset();
  DeviceArray<int> value(1);
  PinnedArray<int> seen(2);
  Stream stream;
  launch({1, 1, 0, stream.handle}, set, value.get(), 9);
  cudaMemcpyAsync(seen.data, value.get(), 4, cudaMemcpyDeviceToHost, stream.handle);
  const auto function = [](void* data) {
    auto* values = static_cast<int*>(data);
    values[0] *= 2;
    values[1] = cudaDeviceSynchronize();
  };
  REQUIRE(cudaLaunchHostFunc(stream.handle, function, seen.data) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(seen.data[0] == 18);
  CHECK(seen.data[1] == cudaErrorNotPermitted);
}

TEST_CASE("work that waits for another stream lets that go on") {
  reset();
  Stream a, b;
  auto flag = std::make_shared<bool>(false);
  REQUIRE(enqueue_polled(a.handle, [flag] { return *flag; }) == cudaSuccess);
  REQUIRE(enqueue(b.handle, [flag] { *flag = true; }) == cudaSuccess);
  CHECK(cudaStreamSynchronize(a.handle) == cudaSuccess);
}

TEST_CASE("threads with a device each run side by side, and wait for each other's work") {
  reset();
  auto arrived = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> right = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      cudaSetDevice(rank);
      int* value = nullptr;
      int result = 0;
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaMalloc(&value, 4);
      load(add);
      launch({1, 1, 0, stream}, set, value, rank);
      enqueue_polled(stream, [arrived, first = true]() mutable {
        if (first) ++*arrived;
        first = false;
        return *arrived == 4;
      });
      launch({1, 1, 0, stream}, add, value, 10);
      cudaStreamSynchronize(stream);
      cudaMemcpy(&result, value, 4, cudaMemcpyDeviceToHost);
      cudaFree(value);
      cudaStreamDestroy(stream);
      right += result == rank + 10;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(right == 4);
}

TEST_CASE("code is loaded before work that waits for others, or from the start") {
  const bool is_eager = GENERATE(false, true);
  if (is_eager) setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  reset();
  unsetenv("CUDA_MODULE_LOADING");
  DeviceArray<int> value(std::vector<int>{0});
  Stream waiting, stream;
  auto flag = std::make_shared<bool>(false);
  load(set);
  REQUIRE(enqueue_polled(waiting.handle, [flag] { return *flag; }) == cudaSuccess);
  CHECK(launch({1, 1, 0, stream.handle}, set, value.get(), 1) == cudaSuccess);
  const cudaError_t first_launch = launch({1, 1, 0, stream.handle}, add, value.get(), 2);
  CHECK((first_launch == cudaSuccess) == is_eager);
  if (!is_eager) {
    CHECK(last_fault() ==
          "kernel autopar::emulation::add is loaded while work waits for other ranks here, which "
          "loading may wait for; load it before");
    CHECK(load_code(0, 1, "a library's code") == cudaErrorNotPermitted);
    CHECK(load_code(1, 1, "a library's code") == cudaSuccess);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    CHECK(launch({}, nothing) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  *flag = true;
  REQUIRE(cudaStreamSynchronize(waiting.handle) == cudaSuccess);
  CHECK(launch({1, 1, 0, stream.handle}, add, value.get(), 3) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(value.values() == std::vector<int>{is_eager ? 6 : 4});
  reset();
}

TEST_CASE("work that another thread queued executes where it is needed") {
  reset();
  Stream stream;
  Event event;
  DeviceArray<int> value(std::vector<int>{0});
  std::thread([&] {
    launch({1, 1, 0, stream.handle}, set, value.get(), 6);
    cudaEventRecord(event.handle, stream.handle);
  }).join();
  Stream mine;
  cudaStreamWaitEvent(mine.handle, event.handle);
  REQUIRE(cudaStreamSynchronize(mine.handle) == cudaSuccess);
  CHECK(value.values() == std::vector<int>{6});
}

// ---- Capture and graphs -------------------------------------------------------------------------

}  // namespace
}  // namespace autopar::emulation
