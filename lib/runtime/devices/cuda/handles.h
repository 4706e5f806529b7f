#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "runtime/devices/cuda/cuda_error.h"

/// CUDA's objects, owned.
namespace autopar::runtime::cuda {

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};
template <typename Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Memory of the host that the GPU's copies go through.
using PinnedMemory = std::unique_ptr<std::byte, Destroy<cudaFreeHost>>;

/// An object in memory that host and device share.
template <typename T>
class Mapped {
 public:
  explicit Mapped(std::string_view what) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, sizeof(T), cudaHostAllocMapped), what);
    host_.reset(new (memory) T);
    check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), memory, 0), what);
  }
  T& operator*() const { return *host_; }
  T* operator->() const { return host_.get(); }
  T* device() const { return device_; }

 private:
  std::unique_ptr<T, Destroy<cudaFreeHost>> host_;
  T* device_ = nullptr;
};

/// One that does not wait for the default stream.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return Stream(stream);
}

inline Event make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "an event");
  return Event(event);
}

}  // namespace autopar::runtime::cuda
