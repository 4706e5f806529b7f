#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "emulation.h"

// What the tests of the emulation have in common.

namespace autopar::emulation {

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

inline __global__ void set(int* to, int value) { *to = value; }
inline __global__ void add(int* to, int value) { *to += value; }
inline __global__ void times(int* to, int value) { *to *= value; }
inline __global__ void copy(int* to, const int* from) { *to = *from; }
inline __global__ void nothing() {}

inline __global__ void reverse(const int* from, int* to, int count, bool meet) {
  __shared__ int tile[256];
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) tile[i] = from[i];
  if (meet) __syncthreads();
  if (i < count) to[i] = tile[count - 1 - i];
}

/// Every call has other values: static shared memory keeps what the last block left there.
inline bool reverses(int count, bool meet) {
  static int next = 0;
  std::vector<int> values(static_cast<std::size_t>(count));
  for (int& value : values) value = ++next;
  DeviceArray<int> from(values);
  DeviceArray<int> to(values.size());
  REQUIRE(launch({1, 256}, reverse, from.get(), to.get(), count, meet) == cudaSuccess);
  std::reverse(values.begin(), values.end());
  return to.values() == values;
}

}  // namespace autopar::emulation
