#include <map>
#include <mutex>

#include "block.h"
#include "cuda_runtime.h"
#include "emulation.h"
#include "machine.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

/// What cudaFuncSetAttribute allows a kernel on a device.
class DynamicSharedLimits {
 public:
  std::size_t get(const void* kernel, int device) {
    const std::lock_guard lock(mutex_);
    const auto it = limits_.find({kernel, device});
    return it == limits_.end() ? kDefaultSharedBytes : it->second;
  }
  void set(const void* kernel, int device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limits_[{kernel, device}] = bytes;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const void*, int>, std::size_t> limits_;
};

DynamicSharedLimits& shared_limits() {
  static DynamicSharedLimits& instance = *new DynamicSharedLimits;
  return instance;
}

bool is_possible(dim3 grid, dim3 block) {
  const auto within = [](unsigned size, unsigned limit) { return size > 0 && size <= limit; };
  return within(grid.x, 0x7fffffff) && within(grid.y, 65535) && within(grid.z, 65535) &&
         within(block.x, 1024) && within(block.y, 1024) && within(block.z, 64) &&
         std::uint64_t{block.x} * block.y * block.z <= 1024;
}

/// One block at a time: blocks cannot wait for each other.
bool needs_blocks_together(const cudaLaunchAttribute& attribute) {
  const auto& cluster = attribute.val.clusterDim;
  return (attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative != 0) ||
         (attribute.id == cudaLaunchAttributeClusterDimension &&
          cluster.x * cluster.y * cluster.z != 1);
}

cudaError_t check(const cudaLaunchConfig_t& config, const void* kernel) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (!is_possible(config.gridDim, config.blockDim)) return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes > shared_limits().get(kernel, current_device())) {
    return cudaErrorInvalidValue;
  }
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (needs_blocks_together(config.attrs[i])) return cudaErrorNotSupported;
  }
  if (device_of(config.stream) != current_device()) return cudaErrorInvalidResourceHandle;
  return take_launch_failure();
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  return call([&] {
    if (cudaError_t error = check(config, kernel); error != cudaSuccess) return error;
    ++count().launches;
    return submit(config.stream, cudaGraphNodeTypeKernel,
                  [grid = config.gridDim, block = config.blockDim, shared = config.dynamicSmemBytes,
                   device = current_device(), thread = std::move(thread)] {
                    const bool is_bad = ++count().kernels == machine().bad_kernel;
                    const std::string fault = is_bad ? "a kernel that the environment lets go wrong"
                                                     : run_grid(grid, block, shared, thread);
                    if (!fault.empty()) report_fault(device, fault);
                    return true;
                  });
  });
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<std::size_t>(value) > kMaxSharedBytes) {
      return cudaErrorInvalidValue;
    }
    shared_limits().set(function, current_device(), static_cast<std::size_t>(value));
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes =
        static_cast<int>(shared_limits().get(function, current_device()));
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size,
                                                          std::size_t dynamic_shared_bytes) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (block_size <= 0) return cudaErrorInvalidValue;
    const int threads = (block_size + 31) / 32 * 32;
    const int by_shared = static_cast<int>((228 << 10) / (dynamic_shared_bytes + 1024));
    const bool fits = block_size <= 1024 && dynamic_shared_bytes <= kMaxSharedBytes;
    *blocks = fits ? std::min({32, 2048 / threads, by_shared}) : 0;
    return cudaSuccess;
  });
}
