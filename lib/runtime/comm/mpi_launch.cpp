#include "runtime/comm/mpi_launch.h"

#include <cstdlib>

#include "base/error.h"
#include "runtime/plugin.h"

namespace autopar::runtime {

namespace {

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

auto* mpi_plugin() {
  try {
    return plugin_function<decltype(autopar_make_mpi_communicator)>(
        "mpi", "autopar_make_mpi_communicator");
  } catch (const Error& error) {
    fail("mpirun or srun started this process, but {}", error.what());
  }
}

}  // namespace

bool started_by_launcher() {
  // A shell that srun gave is a task of it, too, but alone.
  const char* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool is_one_of_slurms = is_set("SLURM_PROCID") && tasks != nullptr && std::atoi(tasks) > 1;
  return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_SIZE") || is_set("PMIX_RANK") ||
         is_one_of_slurms;
}

std::unique_ptr<HostCommunicator> make_mpi_communicator(std::chrono::milliseconds timeout) {
  return std::unique_ptr<HostCommunicator>(mpi_plugin()(timeout.count()));
}

}  // namespace autopar::runtime
