#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "planner/planner.h"
#include "runtime/session_options.h"

namespace autopar::planner {

/// What is measured, and by which ranks.
struct CalibrationOptions {
  std::filesystem::path out{};      ///< the device file to write
  bool force = false;               ///< replaces an existing one
  bool quick = false;               ///< seconds instead of a minute or two, and rough
  std::string name = "calibrated";  ///< what the file calls the device
  int ranks = 0;       ///< 0: as the mesh says, or as many as were started, or 2 threads
  std::string mesh{};  ///< the ranks as a mesh, "2x4", a link for each axis; empty: one axis
  runtime::DeviceOptions device{};
  runtime::LaunchOptions launch{};
  Progress progress{};
};

/// Measures this machine, all ranks at work at once, and writes a device file that PlanOptions'
/// `device` may name. Each rank's process calls it with the same options. Returns, in the process
/// of the first rank, what `autopar calibrate` tells: text of several lines. Throws Error for
/// options that are wrong or not the same on all ranks, and where the file cannot be written.
std::optional<std::string> calibrate(const CalibrationOptions& options);

}  // namespace autopar::planner
