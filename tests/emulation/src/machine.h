#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_runtime_api.h"

// What all of the emulation shares: the machine that is emulated, errors, and what tests control.

namespace autopar::emulation {

inline constexpr int kMaxDevices = 16;
inline constexpr std::size_t kDefaultSharedBytes = 48 << 10;

/// The most that a block may have where cudaFuncSetAttribute allows it (CUDA Programming Guide,
/// "Compute Capabilities").
constexpr std::size_t most_shared_bytes(int architecture) {
  switch (architecture) {
    case 75:
      return 64 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
    case 80:
    case 87:
      return 163 << 10;
    default:
      return 227 << 10;
  }
}

/// The machine as the environment describes it.
struct Machine {
  int devices;
  std::size_t memory_bytes;
  int driver;
  std::int64_t bad_kernel;  ///< 0: none
  int architecture;         ///< 90 is compute capability 9.0
  int first_device;         ///< what the first one is called without CUDA_VISIBLE_DEVICES
  bool loads_eagerly;       ///< all code is there from the start
};
const Machine& machine();

/// After the environment has changed.
void read_machine_again();

int current_device();

/// The error that a lost device returns, or cudaSuccess.
cudaError_t device_error(int device);

/// Tells of a kernel or other work of `device` that went wrong; the device is lost.
void report_fault(int device, const std::string& what);

/// Tells of a call of `device` that is refused.
void report_refusal(int device, const std::string& what);

/// Set while the calling thread executes queued work.
bool& executes_work();

/// Whether a call may be made while streams capture.
enum class InCapture { kAllowed, kForbidden };

/// Whether a call can be made now at all.
cudaError_t admit(InCapture in_capture);

/// Keeps `error` for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);

/// A call of the runtime: admitted, made, its error remembered.
template <typename Body>
cudaError_t call(InCapture in_capture, Body body) {
  cudaError_t error = admit(in_capture);
  if (error == cudaSuccess) error = body();
  return remember(error);
}
template <typename Body>
cudaError_t call(Body body) {
  return call(InCapture::kAllowed, body);
}

struct AtomicCounters {
  std::atomic<std::int64_t> launches, kernels, graph_launches, allocations, synchronisations,
      copies;
};
AtomicCounters& count();

/// Code is loaded anew when it is launched next.
void forget_loaded_code();

/// What is to be returned instead of launching, by fail_launch(); cudaSuccess else.
cudaError_t take_launch_failure();

/// The limit of fail_allocations_above().
std::size_t allocation_limit();

}  // namespace autopar::emulation
