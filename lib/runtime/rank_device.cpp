#include "runtime/rank_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "graph/error.h"
#include "runtime/collectives.h"
#include "runtime/comm/nccl_launch.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/devices/cuda_device.h"

namespace autopar::runtime {
namespace {

using Kind = DeviceOptions::Kind;

int threads_of(const DeviceOptions& options, const LocalRanks& local) {
  if (options.threads > 0) return options.threads;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::max(1, cores / local.count);
}

/// Asked before the plugin is loaded, whose libraries are large.
bool has_gpu_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

bool has_gpu_of_its_own(const LocalRanks& local) {
  try {
    return has_gpu_driver() && count_gpus() >= local.count;
  } catch (const Error&) {
    return false;
  }
}

Kind agreed_kind(const DeviceOptions& options, Communicator& host, const LocalRanks& local) {
  if (options.kind != Kind::automatic) return options.kind;
  return all_agree(host, has_gpu_of_its_own(local)) ? Kind::cuda : Kind::cpu;
}

int gpu_of(const DeviceOptions& options, const LocalRanks& local) {
  const int gpus = count_gpus();
  if (options.gpu) return *options.gpu;
  if (local.count > gpus && !options.host_collectives)
    fail(
        "this machine has {} GPU(s) for {} ranks; start fewer ranks here, or let ranks share GPUs "
        "with --collectives host",
        gpus, local.count);
  return local.rank % gpus;
}

}  // namespace

RankDevice::RankDevice(const DeviceOptions& options, Communicator& host, const LocalRanks& local,
                       std::chrono::milliseconds timeout)
    : host_(host) {
  if (agreed_kind(options, host, local) == Kind::cpu) {
    device_ = std::make_unique<CpuDevice>(threads_of(options, local));
    return;
  }
  device_ = make_cuda_device({gpu_of(options, local), options.allow_tf32});
  if (host.size() == 1) return;
  own_world_ = options.host_collectives
                   ? make_staged_communicator(*device_, host)
                   : make_nccl_communicator(host, device_->collective_queue(), timeout);
}

}  // namespace autopar::runtime
