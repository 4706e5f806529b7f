#include "runtime/comm/nccl_launch.h"

#include "base/error.h"
#include "runtime/plugin.h"

namespace autopar::runtime {

namespace {

auto* nccl_plugin() {
  try {
    return plugin_function<decltype(autopar_make_nccl_communicator)>(
        "nccl", "autopar_make_nccl_communicator");
  } catch (const Error& error) {
    fail("{}; or do without NCCL: --collectives host", error.what());
  }
}

}  // namespace

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(HostCommunicator& host, void* stream,
                                                           std::chrono::milliseconds timeout) {
  return std::unique_ptr<DeviceCommunicator>(nccl_plugin()(&host, stream, timeout.count()));
}

}  // namespace autopar::runtime
