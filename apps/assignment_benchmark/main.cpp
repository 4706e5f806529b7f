// Solves an instance of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism and prints
// one line of JSON: what was found, what is proven, and the time it took.

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "assignment/assignment_problem.h"
#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "base/whole_file.h"
#include "contest_file.h"

namespace {

using namespace autopar;

constexpr int failed = 1;
constexpr int wrong_usage = 2;

struct Options {
  std::string file;
  std::string solution;
  std::vector<std::string> parameters;  ///< NAME=VALUE
  bool lists_parameters = false;
  assignment::SolveOptions solve{.time_limit_seconds = 60};
};

void write_solution(const std::string& path, const std::vector<int>& choice) {
  write_file(path, nlohmann::json(choice).dump() + '\n');
}

void list_parameters(const assignment::SolverParameters& parameters) {
  for (const auto& [name, value, meaning] : parameter_texts(parameters)) {
    fmt::print("{}={}  {}\n", name, value, meaning);
  }
}

void solve_file(const Options& options) {
  const Stopwatch stopwatch;
  // What is left to do when the search ends: pricing, writing, and freeing memory.
  constexpr double share_of_the_end = 0.01;
  const assignment::AssignmentProblem problem = read_contest_file(options.file);
  assignment::SolveOptions solve = options.solve;
  const double end = std::min(1.0, share_of_the_end * solve.time_limit_seconds);
  solve.time_limit_seconds -= stopwatch.seconds() + end;
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best choice so far will do
  const assignment::Solution solution = assignment::solve(problem, solve);

  const bool is_infeasible = solution.status == assignment::Status::infeasible;
  nlohmann::json line = {{"cost", nullptr},
                         {"lower_bound", nullptr},
                         {"proven_optimal", solution.status == assignment::Status::optimal},
                         {"peak_usage", nullptr}};
  if (!is_infeasible) line["lower_bound"] = solution.lower_bound;
  if (!solution.choice.empty()) {
    line["cost"] = solution.cost;
    line["peak_usage"] = 0;
    if (const auto usage = usage_over_time(problem, solution.choice); !usage.empty()) {
      line["peak_usage"] = std::ranges::max(usage);
    }
    if (!options.solution.empty()) write_solution(options.solution, solution.choice);
  }
  line["seconds"] = stopwatch.seconds();
  std::cout << line.dump() << std::endl;
  if (is_infeasible) fail("no choice of '{}' is possible within its limit", options.file);
  if (solution.choice.empty()) fail("no choice was found in time: raise --time-limit");
}

void run(Options options) {
  for (const std::string& text : options.parameters) {
    set_parameter(options.solve.parameters, text);
  }
  if (options.lists_parameters) return list_parameters(options.solve.parameters);
  if (options.file.empty()) fail("give an instance, FILE.json or FILE.json.gz");
  solve_file(options);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("assignment_benchmark"));
  spdlog::set_pattern("%^%l%$: %v");

  Options options;
  CLI::App app{"Solve an assignment problem of the contest's format", "assignment_benchmark"};
  app.add_option("file", options.file, "the instance, FILE.json or FILE.json.gz");
  app.add_option("--time-limit", options.solve.time_limit_seconds, "seconds, reading included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.solve.seed, "of the search's random choices")
      ->capture_default_str();
  app.add_option("--solution", options.solution, "where the chosen strategies are written");
  app.add_option("--parameter", options.parameters, "NAME=VALUE, tunes the solver; repeatable")
      ->allow_extra_args(false)
      ->take_all();
  app.add_flag("--parameters", options.lists_parameters,
               "print all parameters with their values and meanings instead of solving");
  app.add_flag("--log", options.solve.log, "tell on standard error how the search goes");

  try {
    app.parse(argc, argv);
    if (options.solve.log) spdlog::set_level(spdlog::level::debug);
    run(options);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& usage) {
    app.exit(usage);
    return wrong_usage;
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory");
    return failed;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return failed;
  }
}
