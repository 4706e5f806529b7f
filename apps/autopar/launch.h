#pragma once

#include <filesystem>
#include <memory>

#include "runtime/run_bundle.h"

namespace autopar {

/// Runs the bundle the way this process was started: as one rank under mpirun or srun, else every
/// rank in this process.
class Launch {
 public:
  Launch();
  ~Launch();

  /// Rank 0, or the only process: the one that prints and has the outputs.
  bool is_first() const;
  runtime::RunResult run(const std::filesystem::path& bundle_dir,
                         const runtime::NamedTensors& inputs,
                         const runtime::RunOptions& options) const;

 private:
  std::unique_ptr<runtime::Communicator> world_;  ///< null in one process
};

}  // namespace autopar
