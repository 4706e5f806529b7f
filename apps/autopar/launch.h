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
  double timeout_seconds = 30;

  void add_to(CLI::App& command);
  void add_timeout_to(CLI::App& command);
  /// Throws Error where the timeout is no time.
  runtime::LaunchOptions checked() const;
};

}  // namespace autopar
