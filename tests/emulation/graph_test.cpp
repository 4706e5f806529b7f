#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

struct Graph {
  ~Graph() {
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

TEST_CASE("a captured fork and join is replayed in orders that it allows") {
  reset();
  DeviceArray<int> values(std::vector<int>{0, 0, 0});
  int* at = values.get();
  Stream a, b;
  Event fork_event, join_event;
  Graph made;
  REQUIRE(cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  launch({1, 1, 0, a.handle}, add, at, 1);
  cudaEventRecord(fork_event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, fork_event.handle);
  cudaStreamCaptureStatus status{};
  CHECK(cudaStreamIsCapturing(b.handle, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  launch({1, 1, 0, b.handle}, copy, at + 1, at);
  launch({1, 1, 0, b.handle}, times, at + 1, 10);
  launch({1, 1, 0, a.handle}, copy, at + 2, at);
  cudaEventRecord(join_event.handle, b.handle);
  cudaStreamWaitEvent(a.handle, join_event.handle);
  launch({1, 1, 0, a.handle}, copy, at + 2, at + 1);
  REQUIRE(cudaStreamEndCapture(a.handle, &made.graph) == cudaSuccess);
  CHECK(cudaStreamIsCapturing(b.handle, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(counters().kernels == 0);

  std::size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(made.graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 5);
  REQUIRE(cudaGraphInstantiate(&made.exec, made.graph, 0) == cudaSuccess);
  for (int run = 1; run <= 20; ++run) {
    REQUIRE(cudaGraphLaunch(made.exec, b.handle) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b.handle) == cudaSuccess);
    REQUIRE(values.values() == std::vector<int>{run, 10 * run, 10 * run});
  }
  CHECK(counters().kernels == 100);
  CHECK(counters().launches == 5);
  CHECK(counters().graph_launches == 20);
}

TEST_CASE("a graph without a dependency shows it") {
  reset();
  DeviceArray<int> value(1);
  Stream a, b;
  Event event;
  Graph made;
  REQUIRE(cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaEventRecord(event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, event.handle);
  launch({1, 1, 0, a.handle}, set, value.get(), 1);
  launch({1, 1, 0, b.handle}, set, value.get(), 2);
  cudaEventRecord(event.handle, b.handle);
  cudaStreamWaitEvent(a.handle, event.handle);
  REQUIRE(cudaStreamEndCapture(a.handle, &made.graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&made.exec, made.graph, 0) == cudaSuccess);
  std::set<int> seen;
  for (int run = 0; run < 40; ++run) {
    cudaGraphLaunch(made.exec, a.handle);
    REQUIRE(cudaStreamSynchronize(a.handle) == cudaSuccess);
    seen.insert(value.values()[0]);
  }
  CHECK(seen == std::set<int>{1, 2});
}

TEST_CASE("a graph that is launched in two streams runs once after the other") {
  reset();
  DeviceArray<int> values(std::vector<int>{0, 0});
  int* at = values.get();
  Stream a, b;
  Graph made;
  REQUIRE(cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  launch({1, 1, 0, a.handle}, copy, at + 1, at);
  launch({1, 1, 0, a.handle}, add, at + 1, 1);
  launch({1, 1, 0, a.handle}, copy, at, at + 1);
  REQUIRE(cudaStreamEndCapture(a.handle, &made.graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&made.exec, made.graph, 0) == cudaSuccess);
  for (int run = 1; run <= 10; ++run) {
    cudaGraphLaunch(made.exec, a.handle);
    cudaGraphLaunch(made.exec, b.handle);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(values.values()[0] == 2 * run);
  }
}

TEST_CASE("each replay starts with captured work as it was recorded") {
  reset();
  Stream stream;
  Graph made;
  auto calls = std::make_shared<std::vector<int>>();
  REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal) == cudaSuccess);
  enqueue_polled(stream.handle, [calls, count = 0]() mutable {
    calls->push_back(++count);
    return count == 2;
  });
  REQUIRE(cudaStreamEndCapture(stream.handle, &made.graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&made.exec, made.graph, 0) == cudaSuccess);
  cudaGraphLaunch(made.exec, stream.handle);
  cudaGraphLaunch(made.exec, stream.handle);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*calls == std::vector<int>{1, 2, 1, 2});
}

/// Whether `body`, in a capture of `stream`, makes the capture invalid.
template <typename Body>
bool spoils_capture(cudaStream_t stream, cudaStreamCaptureMode mode, Body body) {
  REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  body();
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();
  if (error == cudaSuccess) {
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    return false;
  }
  CHECK(error == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  return true;
}

TEST_CASE("calls that a capture forbids make it invalid") {
  reset();
  Stream stream, other;
  Event event, before;
  DeviceArray<int> device(1);
  PinnedArray<int> pinned(1);
  int pageable = 0;
  cudaEventRecord(before.handle, other.handle);
  const auto spoils = [&](cudaError_t error, auto body) {
    return spoils_capture(stream.handle, cudaStreamCaptureModeThreadLocal,
                          [&] { CHECK(body() == error); });
  };
  constexpr auto unsupported = cudaErrorStreamCaptureUnsupported;
  void* memory = nullptr;
  CHECK(spoils(unsupported, [&] { return cudaMalloc(&memory, 4); }));
  CHECK(spoils(unsupported, [&] { return cudaMallocHost(&memory, 4); }));
  CHECK(spoils(unsupported, [&] { return cudaFree(device.get()); }));
  CHECK(spoils(unsupported, [&] { return cudaStreamSynchronize(stream.handle); }));
  CHECK(spoils(unsupported, [&] { return cudaStreamQuery(stream.handle); }));
  CHECK(spoils(unsupported, [&] { return cudaDeviceSynchronize(); }));
  CHECK(spoils(unsupported, [&] { return cudaEventQuery(before.handle); }));
  CHECK(spoils(unsupported,
               [&] { return cudaMemcpy(&pageable, device.get(), 4, cudaMemcpyDeviceToHost); }));
  CHECK(spoils(unsupported, [&] {
    return cudaMemcpyAsync(&pageable, device.get(), 4, cudaMemcpyDeviceToHost, stream.handle);
  }));
  CHECK(spoils(cudaErrorStreamCaptureIsolation,
               [&] { return cudaStreamWaitEvent(stream.handle, before.handle); }));
  CHECK(spoils(cudaErrorStreamCaptureInvalidated, [&] {
    cudaMalloc(&memory, 4);
    return launch({1, 1, 0, stream.handle}, nothing);
  }));
  CHECK(!spoils(cudaSuccess, [&] {
    return cudaMemcpyAsync(pinned.data, device.get(), 4, cudaMemcpyDeviceToHost, stream.handle);
  }));
  CHECK(!spoils(cudaSuccess, [&] { return launch({1, 1, 0, other.handle}, nothing); }));
  CHECK(!spoils_capture(stream.handle, cudaStreamCaptureModeRelaxed, [&] {
    CHECK(cudaMalloc(&memory, 4) == cudaSuccess);
    CHECK(cudaFree(memory) == cudaSuccess);
  }));
  CHECK(memory != nullptr);
}

TEST_CASE("a capture in another thread forbids calls only if it is global") {
  reset();
  Stream stream;
  const auto allocate_elsewhere = [](cudaError_t& error) {
    std::thread([&] {
      void* memory = nullptr;
      error = cudaMalloc(&memory, 4);
      cudaFree(memory);
    }).join();
  };
  cudaError_t error = cudaSuccess;
  CHECK(!spoils_capture(stream.handle, cudaStreamCaptureModeThreadLocal,
                        [&] { allocate_elsewhere(error); }));
  CHECK(error == cudaSuccess);
  CHECK(spoils_capture(stream.handle, cudaStreamCaptureModeGlobal,
                       [&] { allocate_elsewhere(error); }));
  CHECK(error == cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("a capture ends in its stream, with all that forked joined again") {
  reset();
  Stream a, b;
  Event event;
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, event.handle);
  launch({1, 1, 0, b.handle}, nothing);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(cudaStreamSynchronize(b.handle) == cudaSuccess);
  CHECK(cudaEventSynchronize(event.handle) == cudaErrorCapturedEvent);

  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, event.handle);
  CHECK(cudaStreamEndCapture(b.handle, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("the null stream cannot be used while a blocking stream captures") {
  reset();
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  CHECK(spoils_capture(blocking, cudaStreamCaptureModeThreadLocal,
                       [&] { CHECK(launch({}, nothing) == cudaErrorStreamCaptureImplicit); }));
  Stream stream;
  CHECK(!spoils_capture(stream.handle, cudaStreamCaptureModeThreadLocal,
                        [&] { CHECK(launch({}, nothing) == cudaSuccess); }));
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
}

// ---- The machine --------------------------------------------------------------------------------

}  // namespace
}  // namespace autopar::emulation
