#include "memory.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "capture.h"
#include "crash.h"
#include "emulation.h"
#include "machine.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Device memory: whole pages, of which the last bytes are the allocation's, then a guard page.
struct Allocation {
  int device;
  std::size_t bytes;
  std::byte* pages;
  std::size_t page_bytes;

  std::size_t charged() const { return round_up(bytes, kAlignment); }
  void protect(int protection) const { mprotect(pages, page_bytes, protection); }
};

/// By start. A pinned range is the host's own memory if it was only registered.
struct PinnedRange {
  std::size_t bytes;
  bool registered;
};

struct DeviceState {
  int accesses = 0;
  std::size_t allocated = 0;
  std::size_t peak = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
  std::map<const std::byte*, PinnedRange> pinned;
  std::array<DeviceState, kMaxDevices> devices;
};

Memory& memory() {
  static Memory& instance = *new Memory;
  return instance;
}

/// The entry that starts at or before `pointer` and reaches up to `pointer + bytes`.
template <typename Map>
auto find_holding(Map& map, const void* pointer, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(pointer);
  auto it = map.upper_bound(first);
  if (it == map.begin()) return map.end();
  --it;
  const auto offset = static_cast<std::size_t>(first - it->first);
  // A pointer to the end is in no memory, unless nothing is asked of it.
  const bool holds = offset <= it->second.bytes && bytes <= it->second.bytes - offset &&
                     (offset < it->second.bytes || bytes == 0);
  return holds ? it : map.end();
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  explain_crashes();
  const int device = current_device();
  DeviceState& state = memory().devices[device];
  Allocation allocation{device, bytes, nullptr, 0};
  if (bytes > allocation_limit() || bytes > machine().memory_bytes ||
      allocation.charged() > machine().memory_bytes - state.allocated) {
    return cudaErrorMemoryAllocation;
  }
  allocation.page_bytes = round_up(allocation.charged(), kPage);
  void* pages = mmap(nullptr, allocation.page_bytes + kPage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  allocation.pages = static_cast<std::byte*>(pages);
  allocation.protect(PROT_READ | PROT_WRITE);
  std::memset(allocation.pages, 0xff, allocation.page_bytes);
  if (state.accesses == 0) allocation.protect(PROT_NONE);
  std::byte* start = allocation.pages + allocation.page_bytes - allocation.charged();
  memory().allocations.emplace(start, allocation);
  state.allocated += allocation.charged();
  state.peak = std::max(state.peak, state.allocated);
  ++count().allocations;
  *pointer = start;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::memset(pages, 0xff, bytes);
  const std::lock_guard lock(memory().mutex);
  memory().pinned.emplace(static_cast<std::byte*>(pages), PinnedRange{bytes, false});
  ++count().allocations;
  *pointer = pages;
  return cudaSuccess;
}

}  // namespace

DeviceAccess::DeviceAccess(int device) : device_(device) {
  const std::lock_guard lock(memory().mutex);
  if (memory().devices[device_].accesses++ > 0) return;
  for (const auto& [start, allocation] : memory().allocations) {
    if (allocation.device == device_) allocation.protect(PROT_READ | PROT_WRITE);
  }
}

DeviceAccess::~DeviceAccess() {
  const std::lock_guard lock(memory().mutex);
  if (--memory().devices[device_].accesses > 0) return;
  for (const auto& [start, allocation] : memory().allocations) {
    if (allocation.device == device_) allocation.protect(PROT_NONE);
  }
}

int device_holding(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto it = find_holding(memory().allocations, pointer, bytes);
  return it == memory().allocations.end() ? -1 : it->second.device;
}

bool is_device_memory(const void* pointer, std::size_t bytes, int device) {
  return device_holding(pointer, bytes) == device;
}

bool is_pinned(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  return find_holding(memory().pinned, pointer, bytes) != memory().pinned.end();
}

bool free_device_memory(void* pointer) {
  const std::lock_guard lock(memory().mutex);
  const auto it = memory().allocations.find(static_cast<std::byte*>(pointer));
  if (it == memory().allocations.end()) return false;
  const Allocation& allocation = it->second;
  memory().devices[allocation.device].allocated -= allocation.charged();
  // The addresses are not used again, so that what uses memory after its end crashes.
  mmap(allocation.pages, allocation.page_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  memory().allocations.erase(it);
  return true;
}

std::size_t allocated_bytes(int device) {
  const std::lock_guard lock(memory().mutex);
  return memory().devices[device].allocated;
}

std::size_t peak_allocated_bytes(int device) {
  const std::lock_guard lock(memory().mutex);
  return memory().devices[device].peak;
}

void reset_peaks() {
  const std::lock_guard lock(memory().mutex);
  for (DeviceState& state : memory().devices) state.peak = state.allocated;
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] {
    *total = machine().memory_bytes;
    *free = *total - std::min(*total, allocated_bytes(current_device()));
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call(InCapture::kForbidden, [&] { return allocate(pointer, bytes); });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    // Graphs with allocations are not emulated.
    if (is_capturing(stream)) return refuse_in_capture(stream, cudaErrorNotSupported);
    return allocate(pointer, bytes);
  });
}

cudaError_t cudaFree(void* pointer) {
  return call(InCapture::kForbidden, [&] {
    if (pointer == nullptr) return cudaSuccess;
    const int device = device_holding(pointer, 0);
    if (device < 0) return cudaErrorInvalidValue;
    finish_device(device);
    return free_device_memory(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call([&] {
    if (is_capturing(stream)) return refuse_in_capture(stream, cudaErrorNotSupported);
    if (pointer == nullptr) return cudaSuccess;
    if (device_holding(pointer, 0) < 0) return cudaErrorInvalidValue;
    return submit(stream, cudaGraphNodeTypeMemFree, [pointer] {
      free_device_memory(pointer);
      return true;
    });
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return call(InCapture::kForbidden, [&] { return allocate_pinned(pointer, bytes); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call(InCapture::kForbidden, [&] {
    if (pointer == nullptr) return cudaSuccess;
    finish_device(current_device());
    const std::lock_guard lock(memory().mutex);
    const auto it = memory().pinned.find(static_cast<std::byte*>(pointer));
    if (it == memory().pinned.end() || it->second.registered) return cudaErrorInvalidValue;
    munmap(pointer, it->second.bytes);
    memory().pinned.erase(it);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return call(InCapture::kForbidden, [&] {
    if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (is_pinned(pointer, 1)) return cudaErrorHostMemoryAlreadyRegistered;
    const std::lock_guard lock(memory().mutex);
    memory().pinned.emplace(static_cast<std::byte*>(pointer), PinnedRange{bytes, true});
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return call(InCapture::kForbidden, [&] {
    finish_device(current_device());
    const std::lock_guard lock(memory().mutex);
    const auto it = memory().pinned.find(static_cast<std::byte*>(pointer));
    if (it == memory().pinned.end() || !it->second.registered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    memory().pinned.erase(it);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned) {
  return call([&] {
    if (!is_pinned(pointer, 1)) return cudaErrorInvalidValue;
    *device_pointer = pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&] {
    const int device = device_holding(pointer, 1);
    void* address = const_cast<void*>(pointer);
    if (device >= 0) {
      *attributes = {cudaMemoryTypeDevice, device, address, nullptr};
    } else if (is_pinned(pointer, 1)) {
      *attributes = {cudaMemoryTypeHost, current_device(), address, address};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
    }
    return cudaSuccess;
  });
}
