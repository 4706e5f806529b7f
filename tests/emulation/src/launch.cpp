#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "block.h"
#include "cuda_runtime.h"
#include "emulation.h"
#include "kernel_info.h"
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
    if (it != limits_.end()) return it->second;
    return kDefaultSharedBytes -
           std::min(kDefaultSharedBytes, kernel_info(kernel).static_shared_bytes);
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

/// Registers of a multiprocessor, and what a thread may take of them.
constexpr unsigned kRegisters = 65536;
constexpr unsigned kMostRegistersAThread = 256;

std::string text_of(dim3 size) { return fmt::format("{}x{}x{}", size.x, size.y, size.z); }

bool is_within(dim3 size, dim3 most) {
  const auto within = [](unsigned each, unsigned limit) { return each > 0 && each <= limit; };
  return within(size.x, most.x) && within(size.y, most.y) && within(size.z, most.z);
}

/// Tells why `kernel` is not launched.
cudaError_t refuse(cudaError_t error, const void* kernel, const std::string& why) {
  report_refusal(current_device(), fmt::format("kernel {}: {}", kernel_info(kernel).name, why));
  return error;
}

cudaError_t load(const void* kernel) {
  return load_code(current_device(), reinterpret_cast<std::uintptr_t>(kernel),
                   "kernel " + kernel_info(kernel).name);
}

cudaError_t check_sizes(dim3 grid, dim3 block, const void* kernel) {
  constexpr dim3 most_blocks(0x7fffffff, 65535, 65535);
  constexpr dim3 most_threads(1024, 1024, 64);
  if (!is_within(grid, most_blocks)) {
    return refuse(
        cudaErrorInvalidConfiguration, kernel,
        fmt::format("a grid of {} blocks; it has 1 to {}", text_of(grid), text_of(most_blocks)));
  }
  if (!is_within(block, most_threads) || std::uint64_t{block.x} * block.y * block.z > 1024) {
    return refuse(cudaErrorInvalidConfiguration, kernel,
                  fmt::format("a block of {} threads; it has 1 to {}, and 1024 in all",
                              text_of(block), text_of(most_threads)));
  }
  return cudaSuccess;
}

/// The compiler keeps a kernel's registers to what a block of its launch bound has; of one without
/// it nothing is known.
cudaError_t check_registers(dim3 block, const void* kernel) {
  const unsigned threads = block.x * block.y * block.z;
  const unsigned bound = kernel_info(kernel).launch_bound;
  if (bound != 0 && threads > bound) {
    return refuse(
        cudaErrorLaunchOutOfResources, kernel,
        fmt::format("a block of {} threads; its __launch_bounds__ are {}", threads, bound));
  }
  constexpr unsigned always = kRegisters / kMostRegistersAThread;
  if (bound == 0 && threads > always) {
    return refuse(cudaErrorLaunchOutOfResources, kernel,
                  fmt::format("a block of {} threads; without __launch_bounds__ there may be "
                              "registers for {} alone",
                              threads, always));
  }
  return cudaSuccess;
}

cudaError_t check_shared(std::size_t dynamic_bytes, const void* kernel) {
  const std::size_t most = shared_limits().get(kernel, current_device());
  if (dynamic_bytes <= most) return cudaSuccess;
  return refuse(cudaErrorInvalidValue, kernel,
                fmt::format("{} bytes of dynamic shared memory; it may have {}, beside {} of its "
                            "own, unless cudaFuncSetAttribute allows more",
                            dynamic_bytes, most, kernel_info(kernel).static_shared_bytes));
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
  cudaError_t error = check_sizes(config.gridDim, config.blockDim, kernel);
  if (error == cudaSuccess) error = check_registers(config.blockDim, kernel);
  if (error == cudaSuccess) error = check_shared(config.dynamicSmemBytes, kernel);
  if (error != cudaSuccess) return error;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (needs_blocks_together(config.attrs[i])) return cudaErrorNotSupported;
  }
  if (device_of(config.stream) != current_device()) return cudaErrorInvalidResourceHandle;
  error = load(kernel);
  if (error != cudaSuccess) return error;
  return take_launch_failure();
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  return call([&] {
    if (cudaError_t error = check(config, kernel); error != cudaSuccess) return error;
    ++count().launches;
    return submit(
        config.stream, cudaGraphNodeTypeKernel,
        [grid = config.gridDim, block = config.blockDim, shared = config.dynamicSmemBytes,
         device = current_device(), kernel, thread = std::move(thread)] {
          const bool is_bad = ++count().kernels == machine().bad_kernel;
          const std::string fault =
              is_bad ? "the environment lets it go wrong" : run_grid(grid, block, shared, thread);
          if (!fault.empty())
            report_fault(device, fmt::format("kernel {}: {}", kernel_info(kernel).name, fault));
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
    const std::size_t own = kernel_info(function).static_shared_bytes;
    const std::size_t most = most_shared_bytes(machine().architecture);
    const auto bytes = static_cast<std::size_t>(std::max(value, 0));
    if (value < 0 || own + bytes > most) {
      return refuse(cudaErrorInvalidValue, function,
                    fmt::format("is to have {} bytes of dynamic shared memory beside {} of its "
                                "own; a block of this device has {}",
                                value, own, most));
    }
    shared_limits().set(function, current_device(), bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return call([&] {
    if (name == nullptr || function == nullptr) return cudaErrorInvalidValue;
    *name = kernel_info(function).symbol;
    return *name == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = load(function); error != cudaSuccess) return error;
    *attributes = {};
    const KernelInfo& info = kernel_info(function);
    attributes->sharedSizeBytes = info.static_shared_bytes;
    attributes->maxThreadsPerBlock =
        info.launch_bound == 0 ? 1024 : static_cast<int>(info.launch_bound);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = machine().architecture;
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
    const std::size_t shared = dynamic_shared_bytes + kernel_info(function).static_shared_bytes;
    const std::size_t most = most_shared_bytes(machine().architecture);
    const int by_shared = static_cast<int>((most + 1024) / (shared + 1024));
    const bool fits = block_size <= 1024 && shared <= most;
    *blocks = fits ? std::min({32, 2048 / threads, by_shared}) : 0;
    return cudaSuccess;
  });
}
