#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "capture.h"
#include "emulation.h"
#include "machine.h"
#include "memory.h"
#include "nvtx3/nvToolsExt.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

constexpr int kRuntimeVersion = CUDART_VERSION;

std::int64_t environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoll(text);
}

Machine read_machine() {
  set_seed(static_cast<std::uint64_t>(environment("AUTOPAR_EMULATION_SEED", 1)));
  return {static_cast<int>(
              std::clamp<std::int64_t>(environment("AUTOPAR_EMULATED_GPUS", 4), 0, kMaxDevices)),
          static_cast<std::size_t>(environment("AUTOPAR_EMULATED_MEMORY", std::int64_t{4} << 30)),
          static_cast<int>(environment("AUTOPAR_EMULATED_DRIVER", kRuntimeVersion))};
}

Machine& mutable_machine() {
  static Machine instance = read_machine();
  return instance;
}

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

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int range_depth = 0;

/// Whether there are devices that the driver can drive.
cudaError_t check_machine() {
  if (machine().driver < kRuntimeVersion) return cudaErrorInsufficientDriver;
  return machine().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

/// A call that a lost device does not refuse.
template <typename Body>
cudaError_t call_without_device(Body body) {
  cudaError_t error = check_machine();
  if (error == cudaSuccess) error = body();
  return remember(error);
}

bool exists(int device) { return device >= 0 && device < machine().devices; }

/// What all devices have in common, an H200's, but for the memory.
cudaDeviceProp properties_of(int device) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "Emulated NVIDIA H200");
  p.totalGlobalMem = machine().memory_bytes;
  p.sharedMemPerBlock = kDefaultSharedBytes;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = 132;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.pciBusID = device + 1;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 6144;
  p.l2CacheSize = 60 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.streamPrioritiesSupported = 1;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.managedMemory = 1;
  p.sharedMemPerBlockOptin = kMaxSharedBytes;
  p.maxBlocksPerMultiProcessor = 32;
  p.reservedSharedMemPerBlock = 1024;
  p.hostRegisterSupported = p.hostRegisterReadOnlySupported = 1;
  p.memoryPoolsSupported = 1;
  return p;
}

/// -1 for an attribute that is not emulated.
int attribute_of(cudaDeviceAttr attribute, const cudaDeviceProp& p) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrClockRate:
      return 1980000;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrMemoryClockRate:
      return 3201000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrCooperativeLaunch:
      return p.cooperativeLaunch;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrHostRegisterSupported:
      return p.hostRegisterSupported;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrHostRegisterReadOnlySupported:
      return p.hostRegisterReadOnlySupported;
    case cudaDevAttrMemoryPoolsSupported:
      return p.memoryPoolsSupported;
  }
  return -1;
}

}  // namespace

const Machine& machine() { return mutable_machine(); }

int current_device() { return device_of_thread; }

cudaError_t device_error(int device) { return controls().device_errors[device]; }

void report_fault(int device, const std::string& what) {
  {
    const std::lock_guard lock(controls().mutex);
    controls().fault = what;
  }
  std::fprintf(stderr, "emulated device %d: %s\n", device, what.c_str());
  lose_device(device, cudaErrorLaunchFailure);
}

bool& executes_work() {
  thread_local bool executes = false;
  return executes;
}

cudaError_t admit(InCapture in_capture) {
  if (executes_work()) return cudaErrorNotPermitted;
  if (cudaError_t error = check_machine(); error != cudaSuccess) return error;
  if (cudaError_t error = device_error(current_device()); error != cudaSuccess) return error;
  if (in_capture == InCapture::kForbidden && captures_forbid()) {
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
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
  mutable_machine() = read_machine();
  for (auto& error : controls().device_errors) error = cudaSuccess;
  fail_launch(-1, cudaSuccess);
  fail_allocations_above(SIZE_MAX);
  AtomicCounters& counters = count();
  for (auto* counter : {&counters.launches, &counters.kernels, &counters.graph_launches,
                        &counters.allocations, &counters.synchronisations, &counters.copies}) {
    *counter = 0;
  }
  reset_peaks();
  last_error = cudaSuccess;
  const std::lock_guard lock(controls().mutex);
  controls().fault.clear();
  controls().ranges.clear();
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t lost = device_error(current_device());
  return lost == cudaSuccess ? last_error : lost;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return call_without_device([&] {
    *count = machine().devices;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call_without_device([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    device_of_thread = device;
    return device_error(device);
  });
}

cudaError_t cudaSetDeviceFlags(unsigned) {
  return call([] { return cudaSuccess; });
}

cudaError_t cudaGetDevice(int* device) {
  return call_without_device([&] {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call_without_device([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call_without_device([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    *value = attribute_of(attribute, properties_of(device));
    return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return call_without_device([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    const int written = std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                                      properties_of(device).pciBusID);
    return written < length ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call_without_device([&] {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call([&] { return exists(peer) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaDeviceSynchronize() {
  return call(InCapture::kForbidden, [] {
    finish_device(current_device());
    return synchronise(nullptr, current_device());
  });
}

cudaError_t cudaDeviceReset() {
  return call_without_device([] {
    finish_device(current_device());
    lose_device(current_device(), cudaSuccess);
    return cudaSuccess;
  });
}

#define AUTOPAR_ERRORS(line)                                                                                     \
  line(cudaSuccess, "no error") line(cudaErrorInvalidValue, "invalid argument") line(                            \
      cudaErrorMemoryAllocation,                                                                                 \
      "out of memory") line(cudaErrorInitializationError,                                                        \
                            "initialization error") line(cudaErrorInvalidConfiguration,                          \
                                                         "invalid configuration argument")                       \
      line(cudaErrorInvalidPitchValue, "invalid pitch argument") line(                                           \
          cudaErrorInvalidMemcpyDirection,                                                                       \
          "invalid copy direction for memcpy") line(cudaErrorInsufficientDriver,                                 \
                                                    "CUDA driver version is insufficient for "                   \
                                                    "CUDA runtime version")                                      \
          line(cudaErrorInvalidDeviceFunction, "invalid device function") line(                                  \
              cudaErrorNoDevice, "no CUDA-capable device is detected")                                           \
              line(cudaErrorInvalidDevice, "invalid device ordinal") line(                                       \
                  cudaErrorNoKernelImageForDevice,                                                               \
                  "no kernel image is available for execution on the device")                                    \
                  line(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered") line(                   \
                      cudaErrorInvalidResourceHandle,                                                            \
                      "invalid resource handle") line(cudaErrorIllegalState,                                     \
                                                      "the operation cannot be performed in the "                \
                                                      "present state") line(cudaErrorNotReady,                   \
                                                                            "device not ready")                  \
                      line(cudaErrorIllegalAddress, "an illegal memory access was encountered") line(            \
                          cudaErrorLaunchOutOfResources,                                                         \
                          "too many resources requested for launch") line(cudaErrorLaunchTimeout,                \
                                                                          "the launch timed out "                \
                                                                          "and was terminated")                  \
                          line(cudaErrorPeerAccessAlreadyEnabled, "peer access is already "                      \
                                                                  "enabled") line(                               \
                              cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")                 \
                              line(cudaErrorAssert, "device-side assert triggered") line(                        \
                                  cudaErrorHostMemoryAlreadyRegistered,                                          \
                                  "part or all of the requested memory range is already mapped")                 \
                                  line(cudaErrorHostMemoryNotRegistered,                                         \
                                       "pointer does not correspond to a registered memory "                     \
                                       "region") line(cudaErrorIllegalInstruction,                               \
                                                      "an illegal instruction was encountered")                  \
                                      line(cudaErrorMisalignedAddress, "misaligned address") line(               \
                                          cudaErrorLaunchFailure,                                                \
                                          "unspecified launch failure") line(cudaErrorNotPermitted,              \
                                                                             "operation not "                    \
                                                                             "permitted")                        \
                                          line(cudaErrorNotSupported, "operation not supported") line(           \
                                              cudaErrorSystemNotReady,                                           \
                                              "system not yet initialized")                                      \
                                              line(                                                              \
                                                  cudaErrorStreamCaptureUnsupported,                             \
                                                  "operation not permitted when stream is "                      \
                                                  "capturing") line(cudaErrorStreamCaptureInvalidated,           \
                                                                    "operation failed due to a "                 \
                                                                    "previous error during "                     \
                                                                    "capture") line(cudaErrorStreamCaptureMerge, \
                                                                                    "operation "                 \
                                                                                    "would "                     \
                                                                                    "result in a "               \
                                                                                    "merge of "                  \
                                                                                    "separate "                  \
                                                                                    "capture "                   \
                                                                                    "sequences")                 \
                                                  line(                                                          \
                                                      cudaErrorStreamCaptureUnmatched,                           \
                                                      "capture was not ended in the same stream "                \
                                                      "as it began") line(cudaErrorStreamCaptureUnjoined,        \
                                                                          "capturing stream has "                \
                                                                          "unjoined work")                       \
                                                      line(cudaErrorStreamCaptureIsolation,                      \
                                                           "dependency created on uncaptured "                   \
                                                           "work in another stream")                             \
                                                          line(cudaErrorStreamCaptureImplicit,                   \
                                                               "operation would make the legacy "                \
                                                               "stream depend on a capturing "                   \
                                                               "blocking stream")                                \
                                                              line(cudaErrorCapturedEvent,                       \
                                                                   "operation not permitted on "                 \
                                                                   "an event last recorded in a "                \
                                                                   "capturing stream")                           \
                                                                  line(                                          \
                                                                      cudaErrorStreamCaptureWrongThread,         \
                                                                      "attempt to terminate a "                  \
                                                                      "thread-local capture "                    \
                                                                      "sequence from another "                   \
                                                                      "thread") line(cudaErrorTimeout,           \
                                                                                     "wait "                     \
                                                                                     "operation "                \
                                                                                     "timed out")                \
                                                                      line(                                      \
                                                                          cudaErrorGraphExecUpdateFailure,       \
                                                                          "the graph update was "                \
                                                                          "not performed because "               \
                                                                          "it included changes "                 \
                                                                          "which violated "                      \
                                                                          "constraints")                         \
                                                                          line(cudaErrorUnknown,                 \
                                                                               "unknown error")

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define AUTOPAR_NAME(name, text) \
  case name:                     \
    return #name;
    AUTOPAR_ERRORS(AUTOPAR_NAME)
#undef AUTOPAR_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define AUTOPAR_TEXT(name, text) \
  case name:                     \
    return text;
    AUTOPAR_ERRORS(AUTOPAR_TEXT)
#undef AUTOPAR_TEXT
  }
  return "unrecognized error code";
}

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
