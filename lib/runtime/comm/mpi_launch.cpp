#include "runtime/comm/mpi_launch.h"

#include "base/error.h"
#include "runtime/plugin.h"

namespace autopar::runtime {

namespace {

auto* mpi_plugin() {
  try {
    return plugin_function<decltype(autopar_make_mpi_communicator)>(
        "mpi", "autopar_make_mpi_communicator");
  } catch (const Error& error) {
    fail("MPI is to connect this process to the others, but {}", error.what());
  }
}

}  // namespace

std::unique_ptr<HostCommunicator> make_mpi_communicator(std::chrono::milliseconds timeout) {
  return std::unique_ptr<HostCommunicator>(mpi_plugin()(timeout.count()));
}

}  // namespace autopar::runtime
