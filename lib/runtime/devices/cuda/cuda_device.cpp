#include "runtime/devices/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/devices/cuda/architectures.h"
#include "runtime/devices/cuda/runner.h"
#include "runtime/kernels/movement/strided_copy_cuda.h"

namespace autopar::runtime::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// How many of them this build has kernels for: CUDA names the newest first.
int gpus_with_code(int count) {
  constexpr std::string_view architectures = AUTOPAR_CUDA_ARCHITECTURES;
  for (int gpu = 0; gpu < count; ++gpu) {
    int major = 0;
    int minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu), "the GPU's kind");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu), "the GPU's kind");
    const int capability = 10 * major + minor;
    if (has_code_for(architectures, capability)) continue;
    if (gpu > 0) return gpu;
    fail(
        "--device cuda: the GPU has compute capability {}.{}, but this build has code for {}; "
        "build it with -DCMAKE_CUDA_ARCHITECTURES={}, or use --device cpu",
        major, minor, served_capabilities(architectures), capability);
  }
  return count;
}

int usable_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0;
    int runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver > 0)
      fail(
          "--device cuda: the GPU driver serves CUDA {}, but this build needs {}; update the "
          "driver",
          version_text(driver), version_text(runtime));
    fail("--device cuda: this machine has no NVIDIA driver; use --device cpu");
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
    fail("--device cuda: this machine has no GPU that CUDA can use; use --device cpu");
  check(code, "looking for GPUs");
  return gpus_with_code(count);
}

constexpr std::int64_t arrivals_bytes = 4096;

}  // namespace

CudaDevice::CudaDevice(const CudaOptions& options) : options_(options) {
  const int count = usable_gpus();
  if (options.gpu < 0 || options.gpu >= count)
    fail("there is no GPU {}: this process sees {} GPU(s), numbered from 0", options.gpu, count);
  check(cudaSetDevice(options.gpu), "the GPU's context");
  check(cudaGetDeviceProperties(&properties_, options.gpu), "the GPU's properties");
  for (Stream& stream : streams_) stream = make_stream();
  faults_ = std::make_unique<Faults>();
  arrivals_ = allocate(arrivals_bytes);
  fill(arrivals_.get(), std::byte{0}, arrivals_bytes, compute_stream());
  if (cublasLtCreate(&cublas_) != CUBLAS_STATUS_SUCCESS)
    fail("cuBLASLt cannot be set up on GPU {}; is its memory full?", options.gpu);
}

CudaDevice::~CudaDevice() { cublasLtDestroy(cublas_); }

std::shared_ptr<std::byte> CudaDevice::allocate(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t code =
      cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "the GPU's free memory");
    constexpr double gib = 1 << 30;
    fail(
        "GPU {} has {:.2f} GiB free of {:.2f}, but this rank needs {:.2f} GiB; split the model "
        "over more GPUs, or plan with --memory {:.2f}GiB",
        options_.gpu, static_cast<double>(free) / gib, static_cast<double>(total) / gib,
        static_cast<double>(bytes) / gib, static_cast<double>(free) / gib);
  }
  check(code, "memory for the rank");
  return {static_cast<std::byte*>(memory), [](std::byte* each) { cudaFree(each); }};
}

unsigned* CudaDevice::arrivals(std::int64_t count) const {
  require(count * std::int64_t{sizeof(unsigned)} <= arrivals_bytes, "arrivals are counted");
  return reinterpret_cast<unsigned*>(arrivals_.get());
}

void CudaDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind,
                      std::string_view what) {
  if (bytes == 0) return;
  for (const Queue queue : {Queue::communication, Queue::receive, Queue::send})
    check(cudaStreamSynchronize(stream(queue)), "waiting for collectives");
  check(cudaMemcpyAsync(to, from, bytes, kind, compute_stream()), what);
  check(cudaStreamSynchronize(compute_stream()), what);
}

void CudaDevice::write(std::byte* to, std::span<const std::byte> from) {
  copy(to, from.data(), from.size(), cudaMemcpyHostToDevice, "copying to the GPU");
}

void CudaDevice::read(std::span<std::byte> to, const std::byte* from) {
  copy(to.data(), from, to.size(), cudaMemcpyDeviceToHost, "copying from the GPU");
}

std::unique_ptr<StridedCopies> CudaDevice::make_strided_copies(std::vector<CopyLayout> layouts) {
  return std::make_unique<CudaStridedCopies>(std::move(layouts));
}

void CudaDevice::fill(std::byte* to, std::byte value, std::int64_t bytes, void* stream) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, std::to_integer<int>(value), static_cast<std::size_t>(bytes),
                        static_cast<cudaStream_t>(stream)),
        "filling memory");
}

std::unique_ptr<Runner> CudaDevice::make_runner(std::vector<Step> steps,
                                                CollectiveContext* collectives) {
  return std::make_unique<CudaRunner>(*this, std::move(steps), collectives);
}

}  // namespace autopar::runtime::cuda

// What the program looks for in this plugin (devices/cuda_device.cpp).
extern "C" autopar::runtime::Device* autopar_make_cuda_device(
    const autopar::runtime::CudaOptions* options) {
  return new autopar::runtime::cuda::CudaDevice(*options);
}

extern "C" int autopar_count_gpus() { return autopar::runtime::cuda::usable_gpus(); }

extern "C" void autopar_read_gpu_id(int gpu, autopar::runtime::GpuId* id) {
  using namespace autopar::runtime::cuda;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu), "the GPU's properties");
  static_assert(sizeof *id == sizeof properties.uuid);
  std::memcpy(id, &properties.uuid, sizeof *id);
}
