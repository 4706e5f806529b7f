#include "emulation.h"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace autopar::emulation {
namespace {

using Catch::Contains;

/// Device memory that a test fills and reads.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    REQUIRE(cudaMalloc(&data_, size * sizeof(T)) == cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    REQUIRE(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }

  std::vector<T> values() const {
    std::vector<T> values(size_);
    REQUIRE(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

/// Page-locked host memory: copies from and to it are asynchronous.
template <typename T>
struct PinnedArray {
  explicit PinnedArray(std::size_t size) {
    REQUIRE(cudaMallocHost(&data, size * sizeof(T)) == cudaSuccess);
  }
  ~PinnedArray() { cudaFreeHost(data); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  T* data = nullptr;
};

struct Stream {
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { REQUIRE(cudaEventCreate(&handle) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t handle = nullptr;
};

struct Shape {
  dim3 grid = 1;
  dim3 block = 1;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

template <typename... Parameters, typename... Arguments>
cudaError_t launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = shape.stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// What `kernel` writes, one value for each thread of one block.
template <typename T>
std::vector<T> results(unsigned threads, void (*kernel)(T*)) {
  DeviceArray<T> out(threads);
  REQUIRE(launch({1, threads}, kernel, out.get()) == cudaSuccess);
  return out.values();
}

/// What is wrong with a kernel: the fault it ends with.
template <typename... Parameters, typename... Arguments>
std::string fault_of(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  reset();
  REQUIRE(launch(shape, kernel, arguments...) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  const std::string fault = last_fault();
  reset();
  return fault;
}

__global__ void set(int* to, int value) { *to = value; }
__global__ void add(int* to, int value) { *to += value; }
__global__ void times(int* to, int value) { *to *= value; }
__global__ void copy(int* to, const int* from) { *to = *from; }
__global__ void nothing() {}

// ---- Blocks -------------------------------------------------------------------------------------

__global__ void reverse(const int* from, int* to, int count, bool meet) {
  __shared__ int tile[256];
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) tile[i] = from[i];
  if (meet) __syncthreads();
  if (i < count) to[i] = tile[count - 1 - i];
}

/// Every call has other values: static shared memory keeps what the last block left there.
bool reverses(int count, bool meet) {
  static int next = 0;
  std::vector<int> values(static_cast<std::size_t>(count));
  for (int& value : values) value = ++next;
  DeviceArray<int> from(values);
  DeviceArray<int> to(values.size());
  REQUIRE(launch({1, 256}, reverse, from.get(), to.get(), count, meet) == cudaSuccess);
  std::reverse(values.begin(), values.end());
  return to.values() == values;
}

TEST_CASE("threads see before a barrier what the others wrote, and without one some do not") {
  reset();
  for (const int count : {1, 31, 64, 255, 256}) CHECK(reverses(count, true));
  CHECK(!reverses(256, false));
}

__global__ void positions(uint3* blocks, uint3* threads) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  blocks[i] = blockIdx;
  threads[i] = threadIdx;
}

TEST_CASE("every thread of every block runs once, at its position") {
  reset();
  const dim3 grid(3, 4, 2), block(5, 2, 3);
  const std::size_t count = 24 * 30;
  DeviceArray<uint3> blocks(count), threads(count);
  REQUIRE(launch({grid, block}, positions, blocks.get(), threads.get()) == cudaSuccess);
  const auto seen_blocks = blocks.values(), seen_threads = threads.values();
  for (unsigned i = 0; i < count; ++i) {
    const unsigned b = i / 30, t = i % 30;
    REQUIRE(seen_blocks[i].x == b % 3);
    REQUIRE(seen_blocks[i].y == b / 3 % 4);
    REQUIRE(seen_blocks[i].z == b / 12);
    REQUIRE(seen_threads[i].x == t % 5);
    REQUIRE(seen_threads[i].y == t / 5 % 2);
    REQUIRE(seen_threads[i].z == t / 10);
  }
}

__global__ void record_order(int* order) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  order[threadIdx.x] = next++;
}

TEST_CASE("threads run in an order that the seed decides") {
  reset();
  const auto order = [](std::uint64_t seed) {
    set_seed(seed);
    return results(64, record_order);
  };
  const auto first = order(1);
  CHECK(!std::is_sorted(first.begin(), first.end()));
  CHECK(!std::is_sorted(first.rbegin(), first.rend()));
  CHECK(order(2) != first);
  CHECK(order(1) == first);
}

__global__ void count_predicates(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  const int odd = __syncthreads_count(i % 2);
  const int any = __syncthreads_or(i == 5), none = __syncthreads_or(i == 1000);
  const int all = __syncthreads_and(i < 1000), not_all = __syncthreads_and(i != 5);
  out[i] = odd * 10000 + (any != 0) * 1000 + (none != 0) * 100 + (all != 0) * 10 + (not_all != 0);
}

TEST_CASE("barriers count what the threads bring") {
  reset();
  CHECK(results(100, count_predicates) == std::vector<int>(100, 50 * 10000 + 1010));
}

__global__ void leave_early(int* out) {
  __shared__ int sum;
  const int i = static_cast<int>(threadIdx.x);
  out[i] = -1;
  if (i >= 40) return;
  if (i == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, i);
  __syncthreads();
  out[i] = sum;
}

TEST_CASE("threads that have ended are not waited for") {
  reset();
  const auto out = results(100, leave_early);
  for (int i = 0; i < 100; ++i) CHECK(out[i] == (i < 40 ? 780 : -1));
}

__global__ void fill_shared(int* out, int count) {
  auto* shared = reinterpret_cast<int*>(dynamic_shared());
  out[blockIdx.x * 2] = shared[threadIdx.x];
  shared[count - 1] = 7;
  out[blockIdx.x * 2 + 1] = reinterpret_cast<std::uintptr_t>(shared) % 1024 == 0;
}

TEST_CASE("dynamic shared memory is garbage in each block") {
  reset();
  DeviceArray<int> out(6);
  REQUIRE(launch({3, 1, 400}, fill_shared, out.get(), 100) == cudaSuccess);
  CHECK(out.values() == std::vector<int>{-1, 1, -1, 1, -1, 1});
}

// ---- Warps --------------------------------------------------------------------------------------

template <typename T>
__global__ void shuffle(T* out) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const T mine = static_cast<T>(threadIdx.x) + T(1) / T(2);
  T* to = out + threadIdx.x * 6;
  to[0] = __shfl_sync(0xffffffff, mine, 35);
  to[1] = __shfl_sync(0xffffffff, mine, lane + 1, 8);
  to[2] = __shfl_up_sync(0xffffffff, mine, 3, 16);
  to[3] = __shfl_down_sync(0xffffffff, mine, 5);
  to[4] = __shfl_xor_sync(0xffffffff, mine, 9);
  to[5] = __shfl_xor_sync(0xffffffff, mine, 9, 8);
}

template <typename T>
void check_shuffles() {
  DeviceArray<T> out(64 * 6);
  REQUIRE(launch({1, 64}, shuffle<T>, out.get()) == cudaSuccess);
  const auto values = out.values();
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32, warp = thread - lane;
    const int xor8 = (lane ^ 9) <= (lane | 7) ? lane ^ 9 : lane;
    const int sources[] = {3,
                           lane / 8 * 8 + (lane + 1) % 8,
                           lane % 16 < 3 ? lane : lane - 3,
                           lane + 5 < 32 ? lane + 5 : lane,
                           lane ^ 9,
                           xor8};
    for (int i = 0; i < 6; ++i) {
      REQUIRE(values[thread * 6 + i] == static_cast<T>(warp + sources[i]) + T(1) / T(2));
    }
  }
}

TEST_CASE("shuffles bring values of 4 and 8 bytes from the lanes they name") {
  reset();
  check_shuffles<int>();
  check_shuffles<unsigned>();
  check_shuffles<float>();
  check_shuffles<double>();
  check_shuffles<long long>();
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* to = out + threadIdx.x * 8;
  to[0] = __ballot_sync(0xffffffff, lane % 3 == 0);
  to[1] = __any_sync(0xffffffff, lane == 7) != 0;
  to[2] = __all_sync(0xffffffff, lane != 7) != 0;
  to[3] = __reduce_add_sync(0xffffffff, lane);
  to[4] = static_cast<unsigned>(__reduce_min_sync(0xffffffff, -static_cast<int>(lane)));
  to[5] = __reduce_or_sync(0xffffffff, 1u << lane % 4);
  to[6] = __match_any_sync(0xffffffff, lane / 8);
  to[7] = __activemask() >> lane & 1;
}

TEST_CASE("ballots and reductions see all lanes of their warp") {
  reset();
  DeviceArray<unsigned> out(64 * 8);
  REQUIRE(launch({1, 64}, votes, out.get()) == cudaSuccess);
  const auto values = out.values();
  for (unsigned i = 0; i < 64; ++i) {
    const std::vector<unsigned> mine(values.begin() + i * 8, values.begin() + (i + 1) * 8);
    REQUIRE(mine == std::vector<unsigned>{0x49249249, 1, 0, 496, static_cast<unsigned>(-31), 15,
                                          0xffu << i % 32 / 8 * 8, 1});
  }
}

__global__ void diverge(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  // Even lanes go round five times while the odd ones go round twice.
  int sum = 0;
  if (lane % 2 == 0) {
    for (int i = 0; i < 5; ++i) sum += __shfl_xor_sync(0x55555555, lane, 2);
  } else {
    for (int i = 0; i < 2; ++i) sum += __shfl_down_sync(0xaaaaaaaa, lane, 2);
  }
  __syncwarp();
  out[lane] = sum + __shfl_sync(0xffffffff, sum, 0);
}

TEST_CASE("parts of a warp go their own ways and meet again") {
  reset();
  const auto out = results(32, diverge);
  for (int lane = 0; lane < 30; ++lane) {
    CHECK(out[lane] == 10 + (lane % 2 == 0 ? 5 * (lane ^ 2) : 2 * (lane + 2)));
  }
}

struct Fragment {
  float a[3];
  char b;
};

__global__ void sum_fragments(float* out) {
  const auto lane = static_cast<float>(threadIdx.x);
  Fragment all[32];
  warp_exchange(Fragment{{lane, 2 * lane, 1}, 'x'}, all);
  float sum = 0;
  for (const Fragment& fragment : all) sum += fragment.a[0] + fragment.a[1] + fragment.a[2];
  out[threadIdx.x] = sum;
}

TEST_CASE("a warp exchanges what an emulated instruction needs") {
  reset();
  CHECK(results(32, sum_fragments) == std::vector<float>(32, 3 * 496 + 32));
}

__global__ void change_atomically(unsigned* out) {
  const unsigned i = threadIdx.x;
  atomicAdd(&out[0], 2);
  atomicMax(&out[1], i);
  atomicMin(&out[2], i + 3);
  atomicOr(&out[3], 1u << i % 32);
  atomicAdd(reinterpret_cast<float*>(&out[4]), 0.5f);
  unsigned seen = out[5];
  for (unsigned old; (old = atomicCAS(&out[5], seen, seen + 1)) != seen;) seen = old;
  atomicInc(&out[6], 5);
  if (atomicExch(&out[7], i) == i) __trap();
}

TEST_CASE("atomics change memory as CUDA's do") {
  reset();
  DeviceArray<unsigned> out(std::vector<unsigned>{0, 0, 100, 0, 0, 0, 0, 1000});
  REQUIRE(launch({1, 64}, change_atomically, out.get()) == cudaSuccess);
  const auto values = out.values();
  CHECK(values[0] == 128);
  CHECK(values[1] == 63);
  CHECK(values[2] == 3);
  CHECK(values[3] == 0xffffffff);
  CHECK(__uint_as_float(values[4]) == 32);
  CHECK(values[5] == 64);
  CHECK(values[6] == 64 % 6);
}

TEST_CASE("bits are counted and moved as CUDA's intrinsics do") {
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__brev(1u) == 0x80000000u);
  CHECK(__brev(0x12345678u) == 0x1e6a2c48u);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7250u) == 0x77225500u);
  CHECK(__byte_perm(0x800000ffu, 0, 0x89b0u) == 0xff00ffffu);
  CHECK(__funnelshift_l(0x80000000u, 1, 1) == 3);
  CHECK(__umulhi(0x80000000u, 6) == 3);
  CHECK(__float2int_rn(2.5f) == 2);
}

// ---- Faults -------------------------------------------------------------------------------------

__global__ void shuffle_with_the_ended() {
  if (threadIdx.x == 9) return;
  __shfl_sync(0xffffffff, 1, 0);
}
__global__ void shuffle_alone() {
  if (threadIdx.x % 32 == 4) __shfl_sync(0xffffffff, 1, 0);
  __syncthreads();
}
__global__ void shuffle_without_self() { __shfl_sync(0xfffffffe, 1, 0); }
__global__ void barrier_in_a_branch() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void different_masks() { __syncwarp(threadIdx.x < 16 ? 0xffffffffu : 0xffffff00u); }
__global__ void trap_in_one() {
  if (blockIdx.x == 2 && threadIdx.x == 3) __trap();
}
__global__ void throw_in_one() {
  __syncthreads();
  if (threadIdx.x == 3) throw std::runtime_error("thrown in a kernel");
  __syncthreads();
}

TEST_CASE("a kernel that cannot go on ends with a fault that says where") {
  CHECK_THAT(fault_of({1, 64}, shuffle_with_the_ended),
             Contains("block (0,0,0): threads wait for ever: thread (0,0,0) in __shfl_sync at ") &&
                 Contains("emulation_test.cpp:") && Contains("whose lane 9 has ended"));
  CHECK_THAT(fault_of({1, 64}, shuffle_alone), Contains("in __syncthreads at") &&
                                                   Contains("thread (4,0,0) in __shfl_sync at") &&
                                                   Contains("whose lane 0 is in __syncthreads"));
  CHECK_THAT(fault_of({1, 8}, shuffle_with_the_ended), Contains("whose lane 8 does not exist"));
  CHECK_THAT(fault_of({1, 32}, shuffle_without_self),
             Contains("thread (0,0,0) calls __shfl_sync") && Contains("without its lane"));
  CHECK_THAT(fault_of({1, 64}, barrier_in_a_branch), Contains("while thread ("));
  CHECK_THAT(fault_of({1, 32}, different_masks),
             Contains("whose lane 16 is in __syncwarp") && Contains("with mask 0xffffff00"));
  CHECK_THAT(fault_of({4, 8}, trap_in_one),
             Contains("block (2,0,0), thread (3,0,0) called __trap"));
  CHECK_THAT(fault_of({1, 8}, throw_in_one), Contains("thread (3,0,0) threw: thrown in a kernel"));
}

TEST_CASE("after a fault the device is lost, others are not, and a reset brings it back") {
  reset();
  DeviceArray<int> value(std::vector<int>{1});
  REQUIRE(launch({1, 32}, shuffle_without_self) == cudaSuccess);
  REQUIRE(launch({}, set, value.get(), 2) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(launch({}, set, value.get(), 3) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(launch({}, nothing) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
  reset();
  CHECK(value.values() == std::vector<int>{1});
  CHECK(reverses(256, true));
}

// ---- Launches -----------------------------------------------------------------------------------

TEST_CASE("launches keep to the hardware's limits") {
  reset();
  CHECK(launch({0, 1}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, dim3(1, 0)}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, 1025}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, dim3(32, 33)}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, dim3(1, 1, 65)}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({dim3(1, 65536), 1}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({dim3(1, 1, 65536), 1}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(launch({0x80000000u, 1}, nothing) == cudaErrorInvalidConfiguration);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(launch({dim3(2, 3, 4), dim3(16, 1, 64)}, nothing) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("more than 48 KiB of shared memory must be asked for, on each device") {
  reset();
  constexpr auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(launch({1, 1, 48 << 10}, nothing) == cudaSuccess);
  CHECK(launch({1, 1, (48 << 10) + 1}, nothing) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, attribute, (227 << 10) + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, attribute, 227 << 10) == cudaSuccess);
  CHECK(launch({1, 1, 227 << 10}, nothing) == cudaSuccess);
  CHECK(launch({1, 1, (227 << 10) + 1}, nothing) == cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(launch({1, 1, 227 << 10}, nothing) == cudaErrorInvalidValue);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(nothing, attribute, 48 << 10) == cudaSuccess);
}

TEST_CASE("a stream takes launches of its own device alone") {
  reset();
  Stream stream;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(launch({1, 1, 0, stream.handle}, nothing) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("the launch that a test names fails") {
  reset();
  fail_launch(2);
  CHECK(launch({}, nothing) == cudaSuccess);
  CHECK(launch({}, nothing) == cudaSuccess);
  CHECK(launch({}, nothing) == cudaErrorLaunchOutOfResources);
  CHECK(launch({}, nothing) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(counters().launches == 3);
  CHECK(counters().kernels == 3);
}

// ---- Memory -------------------------------------------------------------------------------------

// ThreadSanitizer loses its fibres in a child process.
#ifndef __SANITIZE_THREAD__
/// What a child process that runs `body` writes to standard error if it crashes; empty if not.
template <typename Body>
std::string crash_of(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[256];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;) text.append(part, bytes);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return crashed ? text + "(crashed)" : "";
}

TEST_CASE("the host cannot touch device memory, nor anyone what is behind it or was freed") {
  reset();
  auto array = std::make_unique<DeviceArray<int>>(std::vector<int>(64, 5));
  volatile int* data = array->get();
  const auto host_crash = Contains("memory of emulated device 0");
  CHECK_THAT(crash_of([&] { *data; }), host_crash);
  CHECK_THAT(crash_of([&] { *data = 1; }), host_crash);
  const auto write_at = [](int* to) {
    launch({}, set, to, 1);
    cudaDeviceSynchronize();
  };
  const auto kernel_crash = Contains("emulated kernel: block (0,0,0), thread (0,0,0) touched");
  CHECK(crash_of([&] { write_at(array->get() + 63); }).empty());
  CHECK_THAT(crash_of([&] { write_at(array->get() + 64); }), kernel_crash);
  {
    const DeviceAccess access(0);
    CHECK(data[63] == 5);
  }
  CHECK_THAT(crash_of([&] { *data; }), host_crash);
  CHECK_THAT(crash_of([&] {
               launch({}, set, array->get(), 1);
               cudaLaunchHostFunc(
                   nullptr, [](void* at) { *static_cast<int*>(at) = 1; }, array->get());
               cudaDeviceSynchronize();
             }),
             host_crash);
  int* freed = array->get();
  array.reset();
  CHECK_THAT(crash_of([&] { write_at(freed); }), kernel_crash);
}
#endif

TEST_CASE("fresh memory is aligned to 256 bytes and full of NaNs") {
  reset();
  for (const std::size_t size : {1, 63, 64, 1000, 5000}) {
    DeviceArray<float> array(size);
    CHECK(reinterpret_cast<std::uintptr_t>(array.get()) % 256 == 0);
    const auto values = array.values();
    CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_CASE("memory runs out, and what is freed is there again") {
  setenv("AUTOPAR_EMULATED_MEMORY", "1048576", 1);
  reset();
  void *half = nullptr, *more = nullptr;
  std::size_t free = 0, total = 0;
  CHECK(cudaMalloc(&half, 600000) == cudaSuccess);
  CHECK(cudaMalloc(&more, 600000) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 1048576);
  CHECK(free == 1048576 - allocated_bytes(0));
  CHECK(cudaFree(half) == cudaSuccess);
  CHECK(cudaMalloc(&more, 600000) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(allocated_bytes(0) == 0);
  CHECK(peak_allocated_bytes(0) >= 600000);
  CHECK(cudaFree(more) == cudaErrorInvalidValue);
  fail_allocations_above(1000);
  CHECK(cudaMalloc(&more, 1001) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&more, 1000) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  unsetenv("AUTOPAR_EMULATED_MEMORY");
  reset();
}

TEST_CASE("copies go where their kind says, within allocations") {
  reset();
  std::vector<int> host{1, 2, 3, 4, 5, 6};
  DeviceArray<int> a(host), b(6);
  CHECK(cudaMemcpy(a.get(), host.data(), 24, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.get(), host.data(), 28, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(b.get(), a.get(), 24, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(b.values() == host);
  // The last two columns of two rows of three, to the first two.
  CHECK(cudaMemcpy2DAsync(b.get(), 12, a.get() + 1, 12, 8, 2, cudaMemcpyDefault) == cudaSuccess);
  CHECK(b.values() == std::vector<int>{2, 3, 3, 5, 6, 6});
  CHECK(cudaMemset(b.get() + 1, 0, 8) == cudaSuccess);
  CHECK(b.values() == std::vector<int>{2, 0, 0, 5, 6, 6});
}

TEST_CASE("a copy reads pageable memory at once and pinned memory when its turn comes") {
  reset();
  DeviceArray<int> device(2);
  std::vector<int> pageable{1};
  PinnedArray<int> pinned(1), back(1);
  *pinned.data = 1;
  Stream stream;
  constexpr auto to_device = cudaMemcpyHostToDevice;
  REQUIRE(cudaMemcpyAsync(device.get(), pageable.data(), 4, to_device, stream.handle) ==
          cudaSuccess);
  REQUIRE(cudaMemcpyAsync(device.get() + 1, pinned.data, 4, to_device, stream.handle) ==
          cudaSuccess);
  pageable[0] = *pinned.data = 2;
  *back.data = 77;
  REQUIRE(cudaMemcpyAsync(back.data, device.get(), 4, cudaMemcpyDeviceToHost, stream.handle) ==
          cudaSuccess);
  CHECK(*back.data == 77);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*back.data == 1);
  CHECK(device.values() == std::vector<int>{1, 2});
}

TEST_CASE("a copy to pageable memory is there when the call returns") {
  reset();
  DeviceArray<int> device(std::vector<int>{3});
  int pageable = 0;
  REQUIRE(cudaMemcpyAsync(&pageable, device.get(), 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(pageable == 3);
}

TEST_CASE("memory is freed when what uses it is done") {
  reset();
  int* value = nullptr;
  Stream stream;
  REQUIRE(cudaMalloc(&value, 4) == cudaSuccess);
  launch({1, 1, 0, stream.handle}, set, value, 1);
  CHECK(counters().kernels == 0);
  CHECK(cudaFree(value) == cudaSuccess);
  CHECK(counters().kernels == 1);
  REQUIRE(cudaMallocAsync(&value, 4, stream.handle) == cudaSuccess);
  launch({1, 1, 0, stream.handle}, set, value, 1);
  CHECK(cudaFreeAsync(value, stream.handle) == cudaSuccess);
  CHECK(allocated_bytes(0) == 256);
  CHECK(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(allocated_bytes(0) == 0);
}

TEST_CASE("pointers tell what they are") {
  reset();
  DeviceArray<int> device(1);
  PinnedArray<int> pinned(1);
  int pageable = 0;
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, device.get()) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned.data) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, &pageable) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaHostRegister(&pageable, 4, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(cudaHostRegister(&pageable, 4, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  REQUIRE(cudaPointerGetAttributes(&attributes, &pageable) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaHostUnregister(&pageable) == cudaSuccess);
  CHECK(cudaHostUnregister(&pageable) == cudaErrorHostMemoryNotRegistered);
}

// ---- Streams and events -------------------------------------------------------------------------

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
  cudaEventRecord(start.handle);
  cudaEventRecord(end.handle);
  cudaEventRecord(untimed);
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, end.handle) == cudaErrorNotReady);
  REQUIRE(cudaEventSynchronize(end.handle) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start.handle, end.handle) == cudaSuccess);
  CHECK(milliseconds >= 0);
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

TEST_CASE("the environment says how many devices there are and how old the driver is") {
  int count = -1;
  setenv("AUTOPAR_EMULATED_GPUS", "0", 1);
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  setenv("AUTOPAR_EMULATED_GPUS", "2", 1);
  setenv("AUTOPAR_EMULATED_DRIVER", "12040", 1);
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  unsetenv("AUTOPAR_EMULATED_DRIVER");
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  unsetenv("AUTOPAR_EMULATED_GPUS");
  reset();
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 3) == cudaSuccess);
  CHECK(value == 132);
  CHECK(cudaGetErrorName(cudaErrorNoDevice) == std::string("cudaErrorNoDevice"));
  CHECK(cudaGetErrorName(static_cast<cudaError_t>(12345)) ==
        std::string("unrecognized error code"));
  CHECK(cudaGetErrorString(cudaErrorMemoryAllocation) == std::string("out of memory"));
}

TEST_CASE("NVTX ranges are remembered") {
  reset();
  CHECK(nvtxRangePushA("outer") == 0);
  CHECK(nvtxRangePushA("inner") == 1);
  CHECK(nvtx_depth() == 2);
  CHECK(nvtxRangePop() == 1);
  CHECK(nvtxRangePop() == 0);
  CHECK(nvtxRangePop() < 0);
  CHECK(nvtx_ranges() == std::vector<std::string>{"outer", "inner"});
}

}  // namespace
}  // namespace autopar::emulation
