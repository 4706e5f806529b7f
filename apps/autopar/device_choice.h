#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "runtime/session_options.h"

namespace autopar {

/// The options that say what ranks run on.
struct DeviceChoice {
  std::string device = "auto";
  std::optional<int> gpu;
  std::string collectives = "nccl";
  bool allow_tf32 = false;
  int threads = 0;
  std::string cpus;

  void add_to(CLI::App& command);
  /// Throws Error for options that are wrong or contradict each other. Binds this process to the
  /// cores that were given.
  runtime::DeviceOptions checked() const;
};

}  // namespace autopar
