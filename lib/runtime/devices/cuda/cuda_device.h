#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>

#include "runtime/device.h"
#include "runtime/devices/cuda/fault.h"
#include "runtime/devices/cuda/handles.h"
#include "runtime/devices/cuda_device.h"

namespace autopar::runtime::cuda {

/// The kernels of GPUs, of all families' tables (kernels/tables.h).
const KernelTable& kernels();

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options);
  ~CudaDevice() override;

  const KernelTable& kernels() const override { return cuda::kernels(); }
  bool shares_host_memory() const override { return false; }
  std::shared_ptr<std::byte> allocate(std::int64_t bytes) override;
  void upload(std::span<const Upload> tensors) override;
  void write(std::byte* to, std::span<const std::byte> from) override;
  void read(std::span<std::byte> to, const std::byte* from) override;
  std::unique_ptr<StridedCopies> make_strided_copies(std::vector<CopyLayout> layouts) override;
  void fill(std::byte* to, std::byte value, std::int64_t bytes, void* stream) override;
  void* queue(Queue queue) const override { return stream(queue); }
  std::unique_ptr<Runner> make_runner(std::vector<Step> steps,
                                      CollectiveContext* collectives) override;

  int number() const { return options_.gpu; }

  // For kernels.
  const cudaDeviceProp& properties() const { return properties_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }
  bool allows_tf32() const { return options_.allow_tf32; }
  cublasLtHandle_t cublas() const { return cublas_; }
  Faults& faults() { return *faults_; }
  /// Counters in the GPU's memory for blocks that wait for each other's results: zeros, as every
  /// kernel leaves them. For kernels of the computation's queue, which run one after the other.
  /// Throws InternalError where there are fewer than `count`.
  unsigned* arrivals(std::int64_t count) const;
  cudaStream_t stream(Queue queue) const { return streams_[static_cast<std::size_t>(queue)].get(); }
  cudaStream_t compute_stream() const { return stream(Queue::computation); }
  cudaStream_t collective_stream() const { return stream(Queue::communication); }

 private:
  /// Behind all that the queues have; returns when it is done.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind,
            std::string_view what);

  CudaOptions options_;
  cudaDeviceProp properties_{};
  cublasLtHandle_t cublas_ = nullptr;
  std::array<Stream, num_queues> streams_;
  std::unique_ptr<Faults> faults_;
  std::shared_ptr<std::byte> arrivals_;
};

/// The device of a request, which is of this kind wherever this table's kernels are made.
inline CudaDevice& device_of(const KernelRequest& request) {
  return static_cast<CudaDevice&>(request.device);
}

}  // namespace autopar::runtime::cuda
