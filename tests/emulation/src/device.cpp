#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "capture.h"
#include "emulation.h"
#include "machine.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

constexpr int kRuntimeVersion = CUDART_VERSION;

std::int64_t environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoll(text);
}

/// What CUDA_VISIBLE_DEVICES says, which names neighbours here.
int visible_devices(int devices) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return devices;
  const std::string names = visible;
  const auto named = names.empty() ? 0 : 1 + std::ranges::count(names, ',');
  return std::min(devices, static_cast<int>(named));
}

bool loads_eagerly() {
  const char* loading = std::getenv("CUDA_MODULE_LOADING");
  return loading != nullptr && std::string_view(loading) == "EAGER";
}

Machine read_machine() {
  set_seed(static_cast<std::uint64_t>(environment("AUTOPAR_EMULATION_SEED", 1)));
  return {visible_devices(static_cast<int>(
              std::clamp<std::int64_t>(environment("AUTOPAR_EMULATED_GPUS", 4), 0, kMaxDevices))),
          static_cast<std::size_t>(environment("AUTOPAR_EMULATED_MEMORY", std::int64_t{4} << 30)),
          static_cast<int>(environment("AUTOPAR_EMULATED_DRIVER", kRuntimeVersion)),
          environment("AUTOPAR_EMULATED_BAD_KERNEL", 0),
          static_cast<int>(environment("AUTOPAR_EMULATED_ARCHITECTURE", 90)),
          static_cast<int>(environment("CUDA_VISIBLE_DEVICES", 0)),
          loads_eagerly()};
}

Machine& mutable_machine() {
  static Machine instance = read_machine();
  return instance;
}

thread_local int device_of_thread = 0;

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
  p.major = machine().architecture / 10;
  p.minor = machine().architecture % 10;
  p.multiProcessorCount = 132;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.pciBusID = machine().first_device + device + 1;
  p.uuid.bytes[0] = static_cast<char>(p.pciBusID);
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 6144;
  p.l2CacheSize = 60 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.streamPrioritiesSupported = 1;
  p.sharedMemPerBlockOptin = most_shared_bytes(machine().architecture);
  p.sharedMemPerMultiprocessor = p.sharedMemPerBlockOptin + 1024;
  p.managedMemory = 1;
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

void read_machine_again() { mutable_machine() = read_machine(); }

int current_device() { return device_of_thread; }

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

}  // namespace autopar::emulation

using namespace autopar::emulation;

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
