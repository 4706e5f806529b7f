#include "runtime/devices/cuda_device.h"

#include "runtime/plugin.h"

namespace autopar::runtime {

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  const auto make =
      plugin_function<Device*(const CudaOptions*)>("cuda", "autopar_make_cuda_device");
  return std::unique_ptr<Device>(make(&options));
}

int count_gpus() { return plugin_function<int()>("cuda", "autopar_count_gpus")(); }

GpuId gpu_id(int gpu) {
  GpuId id{};
  plugin_function<void(int, GpuId*)>("cuda", "autopar_read_gpu_id")(gpu, &id);
  return id;
}

}  // namespace autopar::runtime
