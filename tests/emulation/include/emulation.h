#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

/// A small emulation of CUDA on the host. `.cu` files compile as C++ with these headers before the
/// toolkit's; kernels run with their threads as fibres. What a GPU leaves open is decided by a
/// seeded random generator, so that code that counts on luck fails a test:
///
/// - Threads of a block that can go on are resumed in random order, blocks start in random order,
///   and fresh memory, device and dynamic shared, is full of 0xFF bytes (NaNs). Static shared
///   memory keeps what the last block of the host thread left: tests should vary their values.
/// - Streams only queue work. It executes in the host thread that waits for it (synchronisation,
///   a blocking copy; a query executes one piece), in random order among all orders that streams
///   and events allow for the work which that thread has queued. Work of another thread executes
///   there as well if what is waited for needs it.
/// - Device memory can be read and written by device work alone: host code that touches it crashes,
///   and so does what goes beyond an allocation's end. Standard error says who touched what.
/// - A kernel that goes wrong (threads wait for ever, a warp operation names lanes that are gone,
///   memory is read or written at an address that its type is not aligned at, dynamic shared memory
///   is written behind its end, an exception, __trap) is cudaErrorLaunchFailure for its device from
///   then on; last_fault() says what happened, and where, and standard error shows it too.
/// - A launch that the device could not take is refused, and told of in the same way: sizes of
///   grids and blocks, threads beyond __launch_bounds__ (256 without, for which there are always
///   registers), shared memory.
///
/// Names of kernels, their launch bounds and the static shared memory in their own body are read
/// from the program's file (src/kernel_info.cpp); what functions that they call have is not
/// counted.
///
/// Environment, read when the first call comes and by reset():
///   AUTOPAR_EMULATED_GPUS       number of devices, 4 by default, at most 16
///   AUTOPAR_EMULATED_MEMORY     bytes of memory of each, 4 GiB by default
///   CUDA_VISIBLE_DEVICES        those that are seen, neighbours: "2,3"
///   AUTOPAR_EMULATED_ARCHITECTURE  of the devices, 90 by default
///   AUTOPAR_EMULATED_DRIVER     driver version, 13000 by default
///   CUDA_MODULE_LOADING         EAGER: kernels are loaded before they are launched first
///   AUTOPAR_EMULATED_BAD_KERNEL which kernel goes wrong, counted from 1 as they execute; none
///   AUTOPAR_EMULATION_SEED      of the random generators, 1 by default
namespace autopar::emulation {

// ---- For stand-ins of other libraries -----------------------------------------------------------

/// Queues `work` in `stream`, or records it if the stream is capturing, as a kernel's launch does.
/// When it executes, its device's memory can be accessed by the executing thread, and calls of the
/// runtime are refused. Each replay of a graph executes a copy of `work` as it was recorded. What
/// `work` captures by reference must live until then; prefer values.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// The same for work that waits for others, such as a collective's ranks: `poll` is called again
/// and again until it is true, other streams' work in between. It must not block.
cudaError_t enqueue_polled(cudaStream_t stream, std::function<bool()> poll);

/// Loads code, a kernel's or a library's, onto `device` unless it is there. CUDA does so when it is
/// first launched, or asked for attributes; all code is there from the start where
/// CUDA_MODULE_LOADING is EAGER. Refused, and told of, while work of enqueue_polled is under way on
/// the device: loading may wait for all that runs there, and that for what others launch.
cudaError_t load_code(int device, std::uintptr_t code, const std::string& name);

/// The device that `stream` belongs to; that of the null stream is the current device.
int device_of(cudaStream_t stream);

/// The capture that `stream` is in, as a number of its own; 0 if it captures nothing.
std::uint64_t capture_id(cudaStream_t stream);

/// Whether all of [pointer, pointer + bytes) lies within one allocation of `device`.
bool is_device_memory(const void* pointer, std::size_t bytes, int device);

/// Makes memory of `device` accessible to host code while it lives, for tests and stand-ins.
class DeviceAccess {
 public:
  explicit DeviceAccess(int device);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  int device_;
};

// ---- For kernels --------------------------------------------------------------------------------

/// The block's dynamic shared memory, aligned to 1024 bytes; 0xFF when the block starts. An access
/// more than 1023 bytes beyond its end crashes. In kernels alone.
std::byte* dynamic_shared();

/// The lane of the calling thread in its warp. In kernels alone.
int lane_id();

/// Meets the lanes of `mask` and hands each what each of them gave: `all[lane]` for a lane of the
/// mask, 0xFF elsewhere. `all` has 32 values of `bytes` bytes; `operation` is named in faults.
void exchange(const char* operation, unsigned mask, const void* mine, void* all, std::size_t bytes,
              std::source_location where);

/// Hands every lane of the warp every lane's value; all 32 must come. Emulations of tensor core
/// instructions and of ldmatrix can be written on it, exact in every lane.
template <typename T>
void warp_exchange(const T& mine, T (&all)[32],
                   std::source_location where = std::source_location::current()) {
  static_assert(std::is_trivially_copyable_v<T>);
  exchange("warp_exchange", 0xffffffffu, &mine, all, sizeof(T), where);
}

/// Ends the kernel with a fault where `address` is no multiple of `bytes`: for what instructions
/// that have no C++ access, such as cp.async, ask for.
void require_aligned(const char* operation, const void* address, std::size_t bytes);

/// Ends the kernel with a fault.
[[noreturn]] void fault(const char* what);

// ---- For tests ----------------------------------------------------------------------------------

/// What has happened since the start or the last reset(), in all threads and devices.
struct Counters {
  std::int64_t launches;          ///< calls that launched or captured a kernel
  std::int64_t kernels;           ///< kernels executed, those of graphs included
  std::int64_t graph_launches;    ///< cudaGraphLaunch
  std::int64_t allocations;       ///< of device and of pinned memory
  std::int64_t synchronisations;  ///< waits of the host: stream, event, device, blocking copies
  std::int64_t copies;            ///< copies and fills queued, captured or blocking
};
Counters counters();

/// Bytes of device memory that are allocated on `device`.
std::size_t allocated_bytes(int device);

/// Bytes allocated on `device` at most since the last reset().
std::size_t peak_allocated_bytes(int device);

/// Restarts the random generators of all threads.
void set_seed(std::uint64_t seed);

/// The launch after `count` more of any thread returns `error`, once. Nothing is queued for it.
void fail_launch(std::int64_t count, cudaError_t error = cudaErrorLaunchOutOfResources);

/// Allocations of device memory above `bytes` are refused with cudaErrorMemoryAllocation.
void fail_allocations_above(std::size_t bytes);

/// Every call for `device` returns `error` from now on, and its queued work is dropped when its
/// turn comes: a lost device, or a kernel that failed.
void lose_device(int device, cudaError_t error = cudaErrorLaunchFailure);

/// What the last kernel that went wrong did, or why the last launch was refused, one line; empty if
/// nothing went wrong.
std::string last_fault();

/// The names of the NVTX ranges pushed so far in any thread, in order, and how deep the calling
/// thread is in ranges now.
std::vector<std::string> nvtx_ranges();
int nvtx_depth();

/// Drops queued work, faults, counters and what tests have set; reads the environment again.
/// Allocations, streams, events and graphs stay. No other thread may be in a call.
void reset();

}  // namespace autopar::emulation
