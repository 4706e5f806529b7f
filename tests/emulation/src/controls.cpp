#include <array>
#include <cstdio>
#include <mutex>
#include <vector>

#include "emulation.h"
#include "machine.h"
#include "memory.h"
#include "nvtx3/nvToolsExt.h"
#include "queue.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

/// What tests set, and what went wrong.
struct Controls {
  std::array<std::atomic<cudaError_t>, kMaxDevices> device_errors{};
  std::atomic<std::int64_t> launches_before_failure = -1;
  std::atomic<cudaError_t> launch_error = cudaSuccess;
  std::atomic<std::size_t> allocation_limit = SIZE_MAX;
  std::mutex mutex;
  std::string fault;
  std::vector<std::string> ranges;
};

Controls& controls() {
  static Controls& instance = *new Controls;
  return instance;
}

thread_local int range_depth = 0;

}  // namespace

cudaError_t device_error(int device) { return controls().device_errors[device]; }

void report_refusal(int device, const std::string& what) {
  {
    const std::lock_guard lock(controls().mutex);
    controls().fault = what;
  }
  std::fprintf(stderr, "emulated device %d: %s\n", device, what.c_str());
}

void report_fault(int device, const std::string& what) {
  report_refusal(device, what);
  lose_device(device, cudaErrorLaunchFailure);
}

AtomicCounters& count() {
  static AtomicCounters instance;
  return instance;
}

Counters counters() {
  const AtomicCounters& now = count();
  return {now.launches,    now.kernels,          now.graph_launches,
          now.allocations, now.synchronisations, now.copies};
}

cudaError_t take_launch_failure() {
  if (controls().launches_before_failure < 0) return cudaSuccess;
  return controls().launches_before_failure-- == 0 ? controls().launch_error.load() : cudaSuccess;
}

std::size_t allocation_limit() { return controls().allocation_limit; }

void fail_launch(std::int64_t count, cudaError_t error) {
  controls().launch_error = error;
  controls().launches_before_failure = count;
}

void fail_allocations_above(std::size_t bytes) { controls().allocation_limit = bytes; }

void lose_device(int device, cudaError_t error) { controls().device_errors[device] = error; }

std::string last_fault() {
  const std::lock_guard lock(controls().mutex);
  return controls().fault;
}

std::vector<std::string> nvtx_ranges() {
  const std::lock_guard lock(controls().mutex);
  return controls().ranges;
}

int nvtx_depth() { return range_depth; }

void reset() {
  drop_queued_work();
  forget_queued_work();
  forget_loaded_code();
  read_machine_again();
  for (auto& error : controls().device_errors) error = cudaSuccess;
  fail_launch(-1, cudaSuccess);
  fail_allocations_above(SIZE_MAX);
  AtomicCounters& counters = count();
  for (auto* counter : {&counters.launches, &counters.kernels, &counters.graph_launches,
                        &counters.allocations, &counters.synchronisations, &counters.copies}) {
    *counter = 0;
  }
  reset_peaks();
  cudaGetLastError();
  const std::lock_guard lock(controls().mutex);
  controls().fault.clear();
  controls().ranges.clear();
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

int nvtxRangePushA(const char* message) {
  const std::lock_guard lock(controls().mutex);
  controls().ranges.emplace_back(message);
  return range_depth++;
}

int nvtxRangePushEx(const nvtxEventAttributes_t* attributes) {
  return nvtxRangePushA(attributes->message.ascii);
}

int nvtxRangePop() { return range_depth == 0 ? -2 : --range_depth; }

void nvtxMarkA(const char*) {}
