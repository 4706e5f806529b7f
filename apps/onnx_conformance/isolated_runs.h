#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "run_test.h"

namespace autopar::conformance {

struct Isolation {
  int jobs = 1;             ///< processes at a time
  int seconds = 300;        ///< for one test
  int tests_a_process = 1;  ///< at most, one after another, until one fails
};

/// Is told of each test as it ends, with its place among the folders.
using Reporter = std::function<void(std::size_t place, const TestResult& result)>;

/// Runs tests in processes of their own, so that none can take others with it: one at which its
/// process is ended by a signal is a crash; one that takes too long is killed and a hang. Those
/// that such a process had before it go on in another.
void run_isolated(const std::vector<std::filesystem::path>& folders, const TestOptions& options,
                  const Isolation& isolation, const Reporter& report);

}  // namespace autopar::conformance
