#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "run_test.h"

namespace autopar::conformance {

/// Runs each test in a process of its own, `jobs` at a time, so that none can take others with it:
/// a process that a signal ends is a crash, one that takes longer than `seconds` is killed and a
/// hang. `report` is told of each test as it ends, with its place in `folders`.
void run_isolated(const std::vector<std::filesystem::path>& folders, const TestOptions& options,
                  int jobs, int seconds,
                  const std::function<void(std::size_t place, const TestResult& result)>& report);

}  // namespace autopar::conformance
