#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "onnx_test.h"
#include "runtime/rank_device.h"

namespace autopar::conformance {

enum class Outcome {
  passed,
  skipped,  ///< for a reason from the fixed list
  refused,  ///< with an error that says why
  wrong,    ///< ran and gave something else
  crashed,
  hung,
};

struct TestResult {
  Outcome outcome = Outcome::passed;
  std::string operators;  ///< as OnnxTest's
  std::string message;    ///< why it did not pass; one line
  int plans = 0;          ///< that passed, the whole model counted as one
  /// Inputs whose values were fixed when the model was read, of a data set that has most of them.
  int fixed_inputs = 0;
  int inputs = 0;  ///< of that data set; with all of them fixed, the whole test is constant folding
  /// With what the test is refused where no inputs are fixed, as shapes depend on them or a kernel
  /// wants them constant; empty where none are.
  std::string fixed_since;
  bool is_random = false;  ///< as OnnxTest's
  /// Why no way of running it gave an answer, where a test of odd inputs expects one; else empty.
  std::string unanswered;
};

struct TestOptions {
  int ranks = 1;
  std::filesystem::path scratch;  ///< bundles are written here, in folders that go when they ran
  runtime::DeviceOptions device;
  /// Tests whose inputs may make no sense pass where they are refused with an Error: whole and with
  /// `ranks`, with no input fixed, with the odd one alone and with all. What a test expects is
  /// compared where it runs, and the result tells where it does not run at all.
  bool are_odd = false;
  std::int64_t memory_bytes = 0;  ///< address space of a test's process; 0: as it comes
};

/// Runs a test whole, or with several ranks under each forced plan (forced_plans.h), through the
/// same bundle and runner as a user's. Never throws.
TestResult run_test(const std::filesystem::path& folder, const TestOptions& options);

}  // namespace autopar::conformance
