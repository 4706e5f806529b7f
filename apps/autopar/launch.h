#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
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
  /// Throws Error where it is no time.
  std::chrono::milliseconds timeout() const;
};

/// What ranks that meet must have in common.
struct Gathering {
  std::size_t ranks = 1;
  std::string what;                     ///< that has so many ranks, for messages
  std::function<std::string()> digest;  ///< of what they are to do; asked at a rendezvous alone
  /// A rank may wait so many times the timeout during a run, as long as others are at work.
  int patience = 1;
};

/// Waits for the other ranks, if this process is one of several; else null. Under a launcher there
/// may be more or fewer of them than are wanted.
std::unique_ptr<runtime::Communicator> find_other_ranks(const LaunchOptions& options,
                                                        const Gathering& gathering);

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
  std::chrono::milliseconds timeout_;             ///< of a run
  std::unique_ptr<runtime::Communicator> world_;  ///< null where all ranks are in this process
  runtime::LocalRanks local_;
};

}  // namespace autopar
