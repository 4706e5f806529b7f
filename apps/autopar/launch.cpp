#include "launch.h"

#include "runtime/comm/local_ranks.h"
#include "runtime/comm/mpi_launch.h"

namespace autopar {

Launch::Launch()
    : world_(runtime::started_by_launcher()
                 ? runtime::make_mpi_communicator(runtime::RunOptions{}.timeout)
                 : nullptr) {}

Launch::~Launch() = default;

bool Launch::is_first() const { return !world_ || world_->rank() == 0; }

runtime::RunResult Launch::run(const std::filesystem::path& bundle_dir,
                               const runtime::NamedTensors& inputs,
                               const runtime::RunOptions& options) const {
  if (!world_) return runtime::run_in_threads(bundle_dir, inputs, options);
  return runtime::run_as_rank(bundle_dir, inputs, options, *world_,
                              runtime::local_ranks(*world_).count);
}

}  // namespace autopar
