#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "bundle/meta_info.h"
#include "runtime/comm/local_ranks.h"
#include "runtime/run_bundle.h"

namespace autopar {

/// Whether this process runs one rank of several, and how it finds the others.
struct LaunchOptions {
  std::optional<int> rank;
  std::string rendezvous;  ///< HOST:PORT
  double timeout_seconds = 30;

  void add_to(CLI::App& command);
  void add_timeout_to(CLI::App& command);
};

/// Runs a bundle the way this process was started: as one rank, by --rank and --rendezvous or under
/// mpirun or srun, else every rank in this process.
class Launch {
 public:
  /// Waits for the other ranks if this process is one of several. Throws Error for options that are
  /// wrong or contradict each other, and where the ranks do not find together.
  Launch(const LaunchOptions& options, std::filesystem::path bundle_dir,
         const bundle::MetaInfo& info);
  ~Launch();

  /// Rank 0, or the only process: the one that prints and has the outputs.
  bool is_first() const;
  runtime::RunResult run(const runtime::NamedTensors& inputs, runtime::RunOptions options) const;

 private:
  std::filesystem::path bundle_dir_;
  std::size_t ranks_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<runtime::Communicator> world_;  ///< null where all ranks are in this process
  runtime::LocalRanks local_;
};

}  // namespace autopar
