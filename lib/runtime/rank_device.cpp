#include "runtime/rank_device.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/error.h"
#include "base/usable_cores.h"
#include "runtime/collectives.h"
#include "runtime/comm/nccl_launch.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/devices/cuda_device.h"

namespace autopar::runtime {
namespace {

using Kind = DeviceOptions::Kind;

/// 0 where there is none that can be used.
int usable_gpus() {
  // Looked for before the plugin is loaded, whose libraries are large.
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return 0;
  dlclose(driver);
  try {
    return count_gpus();
  } catch (const Error&) {
    return 0;
  }
}

/// Whether this process sees a single GPU that no other rank sees: launchers may share GPUs out so.
/// Every rank asks, and waits for those that still load.
bool sees_its_own_alone(int gpus, HostCommunicator& host) {
  const GpuId mine = gpus == 1 ? gpu_id(0) : GpuId{};
  host.barrier();
  const std::vector<GpuId> all = gather_all(host, mine);
  return gpus == 1 && std::ranges::count(all, mine) == 1;
}

Kind agreed_kind(const DeviceOptions& options, HostCommunicator& host, const LocalRanks& local) {
  if (options.kind != Kind::automatic) return options.kind;
  const int gpus = usable_gpus();
  const bool has_one = sees_its_own_alone(gpus, host) || gpus >= local.count;
  return all_agree(host, has_one) ? Kind::cuda : Kind::cpu;
}

int gpu_of(const DeviceOptions& options, HostCommunicator& host, const LocalRanks& local) {
  const int gpus = count_gpus();
  const bool is_shared_out = sees_its_own_alone(gpus, host);
  if (options.gpu) return *options.gpu;
  if (is_shared_out) return 0;
  if (local.count > gpus && !options.host_collectives)
    fail(
        "this machine has {} GPU(s) for {} ranks; start fewer ranks here, or let ranks share GPUs "
        "with --collectives host",
        gpus, local.count);
  return local.rank % gpus;
}

void bind_to_node(const LocalRanks& local) {
  if (!local.cores_of_node.empty()) bind_thread(local.cores_of_node);
}

}  // namespace

void bind_reader(const DeviceOptions& options, const LocalRanks& local) {
  const bool is_of_cpu =
      options.kind == Kind::cpu || (options.kind == Kind::automatic && usable_gpus() == 0);
  if (is_of_cpu) bind_to_node(local);
}

int threads_of(const DeviceOptions& options, const LocalRanks& local) {
  if (options.threads > 0) return options.threads;
  if (local.cores > 0) return local.cores;
  return std::max(1, static_cast<int>(usable_cores()) / local.count);
}

RankDevice::RankDevice(const DeviceOptions& options, HostCommunicator& host,
                       const LocalRanks& local, std::chrono::milliseconds timeout) {
  if (agreed_kind(options, host, local) == Kind::cpu) {
    bind_to_node(local);
    device_ = std::make_unique<CpuDevice>(threads_of(options, local));
  } else {
    device_ = make_cuda_device({.gpu = gpu_of(options, host, local),
                                .allow_tf32 = options.allow_tf32,
                                .threads = threads_of(options, local)});
  }
  const bool by_nccl =
      !device_->shares_host_memory() && host.size() > 1 && !options.host_collectives;
  if (by_nccl && host.encrypts())
    fail(
        "--tls: GPUs send by NCCL, which does not encrypt; leave --tls out on a network that you "
        "trust, or let the host send for them with --collectives host");
  world_ = by_nccl ? make_nccl_communicator(host, device_->collective_queue(), timeout)
                   : make_staged_communicator(*device_, host);
}

}  // namespace autopar::runtime
