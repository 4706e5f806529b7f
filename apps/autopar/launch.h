#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "runtime/session_options.h"

namespace autopar {

/// The options that say whether this process runs one rank of several, and how it finds the others.
struct LaunchChoice {
  std::optional<int> rank;
  std::string rendezvous;  ///< HOST:PORT
  std::string secret_file;
  bool tls = false;
  std::string launcher = "auto";
  double timeout_seconds = 30;

  void add_to(CLI::App& command);
  /// Throws Error where the timeout is no time or the launcher none.
  runtime::LaunchOptions checked() const;
};

/// For the log: the rank of this process where the command, which has been parsed, runs ranks and
/// seems to be one of several.
std::optional<int> presumed_rank(const CLI::App& command);

}  // namespace autopar
