// Runs test folders of ONNX's own form, whole or partitioned with every plan forced in turn, and
// compares with the outputs that they expect.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "isolated_runs.h"
#include "onnx_test.h"

namespace autopar::conformance {
namespace {

constexpr std::array<std::string_view, 6> outcome_names = {"passed", "skipped", "refused",
                                                           "WRONG",  "CRASHED", "HUNG"};
std::string_view name_of(Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The results so far, and the texts made of them.
class Report {
 public:
  explicit Report(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {
    results_.resize(folders_.size());
  }

  void take(std::size_t place, const TestResult& result) { results_[place] = result; }

  /// What did not pass, operator by operator, then why tests were skipped, then the sums.
  void print() const {
    std::map<std::string, std::vector<std::size_t>> failures;
    std::map<std::string, int> skipped;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].outcome == Outcome::skipped) ++skipped[results_[i].message];
      if (is_failure(results_[i])) failures[results_[i].operators].push_back(i);
    }
    for (const auto& [operators, places] : failures) {
      fmt::print("{}\n", operators.empty() ? "(unread)" : operators);
      for (const std::size_t i : places)
        fmt::print("  {} {}: {}\n", name_of(results_[i].outcome), folders_[i].filename().string(),
                   one_line(results_[i].message));
    }
    print_fixed();
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (!results_[i].unanswered.empty())
        fmt::print("unanswered: {}: {}\n", folders_[i].filename().string(),
                   one_line(results_[i].unanswered));
    for (const auto& [reason, count] : skipped) fmt::print("skipped: {} {}\n", count, reason);
    for (const Outcome outcome :
         {Outcome::refused, Outcome::wrong, Outcome::crashed, Outcome::hung})
      if (const auto tests = count(outcome); tests > 0)
        fmt::print("{}: {}\n", name_of(outcome), tests);
    std::int64_t plans = 0;
    for (const TestResult& result : results_) plans += result.plans;
    if (const auto random = std::ranges::count_if(results_, &TestResult::is_random); random > 0)
      fmt::print("random numbers, of which types and shapes alone are compared: in {} tests\n",
                 random);
    fmt::print("plans: {}; inputs fixed when the model was read: in {} tests, all of them in {}\n",
               plans, std::ranges::count_if(results_, has_fixed),
               std::ranges::count_if(results_, is_folded));
    fmt::print("{} passed, {} failed, {} skipped\n", count(Outcome::passed), failed(),
               count(Outcome::skipped));
  }

  std::ptrdiff_t failed() const { return std::ranges::count_if(results_, is_failure); }

 private:
  /// How the run differed from what the test says, and why.
  void print_fixed() const {
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (has_fixed(results_[i]))
        fmt::print("fixed: {}, {} of {} inputs, since else: {}\n", folders_[i].filename().string(),
                   results_[i].fixed_inputs, results_[i].inputs, one_line(results_[i].fixed_since));
  }

  static bool has_fixed(const TestResult& result) { return result.fixed_inputs > 0; }
  /// Nothing but constant folding was tested.
  static bool is_folded(const TestResult& result) {
    return has_fixed(result) && result.fixed_inputs == result.inputs;
  }
  static bool is_failure(const TestResult& result) {
    return result.outcome != Outcome::passed && result.outcome != Outcome::skipped;
  }
  std::ptrdiff_t count(Outcome outcome) const {
    return std::ranges::count(results_, outcome, &TestResult::outcome);
  }

  std::vector<std::filesystem::path> folders_;
  std::vector<TestResult> results_;
};

int run(int argc, char** argv) {
  CLI::App app{"Run ONNX's own tests: folders with model.onnx and test_data_set_*",
               "onnx_conformance"};
  std::vector<std::filesystem::path> folders;
  TestOptions options;
  options.device.threads = 1;
  std::string device = "cpu";
  Isolation isolation;
  isolation.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("folders", folders, "Tests, or folders of tests")->required();
  app.add_option("--device", device, "What to run on")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--ranks", options.ranks,
                 "1: the whole model; more: every non-trivial plan forced in turn")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--jobs", isolation.jobs, "Tests at the same time")->check(CLI::PositiveNumber);
  app.add_option("--timeout", isolation.seconds, "Seconds for one test")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tests-a-process", isolation.tests_a_process,
                 "Tests that a process runs, until one fails: setting up a GPU takes longer than a "
                 "test")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--odd", options.are_odd,
               "Tests of odd inputs (make_odd_tests.py): refusing them passes, in one line");
  app.add_option("--memory-bytes", options.memory_bytes, "Address space of a test's process")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& usage) {
    return app.exit(usage) == 0 ? 0 : 2;
  }
  if (device == "cuda") options.device.kind = runtime::DeviceOptions::Kind::cuda;
  spdlog::set_level(spdlog::level::err);
  try {
    const auto tests = find_tests(folders);
    // Owned by the process that lives on where a test crashes or hangs.
    const TemporaryFolder scratch;
    options.scratch = scratch.path();
    Report report(tests);
    run_isolated(tests, options, isolation,
                 [&](std::size_t place, const TestResult& result) { report.take(place, result); });
    report.print();
    return report.failed() == 0 ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace autopar::conformance

int main(int argc, char** argv) { return autopar::conformance::run(argc, argv); }
