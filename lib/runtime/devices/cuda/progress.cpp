#include "runtime/devices/cuda/progress.h"

#include <atomic>

#include "runtime/kernels/cuda/write_mark.h"

namespace autopar::runtime::cuda {

Progress::Progress() {
  void* host = nullptr;
  check(cudaHostAlloc(&host, sizeof(Marks), cudaHostAllocMapped), "memory for progress");
  host_.reset(new (host) Marks);
  check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), host, 0),
        "memory for progress");
}

void Progress::reset() { *host_ = {}; }

void Progress::mark_start(cudaStream_t stream, unsigned number) const {
  write_mark(stream, &device_->started, number);
}

void Progress::mark_end(cudaStream_t stream, unsigned number) const {
  write_mark(stream, &device_->finished, number);
}

Progress::Marks Progress::read() const {
  return {std::atomic_ref(host_->started).load(), std::atomic_ref(host_->finished).load()};
}

}  // namespace autopar::runtime::cuda
