#include <stdexcept>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

using Catch::Contains;

// Faults

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
                 Contains("launch_test.cpp:") && Contains("whose lane 9 has ended"));
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

// Launches

__global__ void __launch_bounds__(1024) nothing_in_large_blocks() {}

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
  CHECK(launch({dim3(2, 3, 4), dim3(16, 1, 64)}, nothing_in_large_blocks) == cudaSuccess);
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

}  // namespace
}  // namespace autopar::emulation
