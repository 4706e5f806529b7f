#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/session_options.h"

namespace autopar::runtime {

/// What tells a process how it was started.
struct Surroundings {
  /// The environment's; absent where it is not set.
  std::function<std::optional<std::string>(const char* name)> variable;
  /// The machine's, with its domain where that is known.
  std::function<std::string()> host_name;
};

/// This process's own.
Surroundings process_surroundings();

/// One rank of several, each a process.
struct LaunchedRank {
  std::string launcher = {};  ///< who has started it, "torchrun"; empty: the options tell its rank
  int rank = 0;
  std::optional<int> size = {};  ///< absent: MPI tells
  std::string rendezvous = {};   ///< HOST:PORT, where the ranks meet; empty: MPI connects them
  /// srun has started it with PMI. An MPI that was not built for that PMI ends the process, while
  /// srun's own variables are enough to meet.
  bool needs_no_mpi = false;
};

/// "started by torchrun: rank 1 of 4, meeting at host:29500"
std::string to_string(const LaunchedRank& launched);

/// What is to be run.
struct ExpectedLaunch {
  std::string what;               ///< that has ranks, for messages
  std::optional<int> ranks = {};  ///< absent: as many as a launcher has started
};

/// The rank that the options give this process, or else the launcher that has started it; absent
/// where it is to run all of them. Throws Error, in a line, for what contradicts the expected
/// ranks, itself or each other.
std::optional<LaunchedRank> find_launch(const Surroundings& surroundings,
                                        const LaunchOptions& options,
                                        const ExpectedLaunch& expected);

/// The same, for a log, before it is known what is to be run and whether anything is wrong.
std::optional<int> presumed_rank(const Surroundings& surroundings, const LaunchOptions& options);

/// Throws Error for a launcher that is none of LaunchOptions'.
void check_launcher(const std::string& launcher);

}  // namespace autopar::runtime
