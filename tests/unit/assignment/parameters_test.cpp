#include "assignment/parameters.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "assignment/assignment_problem.h"
#include "base/error.h"

using namespace autopar::assignment;
using Catch::Matchers::Contains;

namespace {

std::string value_of(const SolverParameters& parameters, std::string_view name) {
  for (const auto& text : parameter_texts(parameters)) {
    if (text.name == name) return text.value;
  }
  return "";
}

}  // namespace

TEST_CASE("every parameter is printed once, with its group, a value and a meaning") {
  std::set<std::string> names;
  std::set<std::string> groups;
  for (const auto& text : parameter_texts({})) {
    CAPTURE(text.name);
    CHECK(names.insert(text.name).second);
    groups.insert(text.name.substr(0, text.name.find('.')));
    CHECK_FALSE(text.value.empty());
    CHECK_FALSE(text.meaning.empty());
  }
  CHECK(groups.size() == 18);
  CHECK(names.size() > 85);
  CHECK(value_of({}, "relaxation.first_sweeps") == "10");
  CHECK(value_of({}, "peak.small_gap") == "0.001");
}

TEST_CASE("every parameter is set to its default and to another value, and none besides") {
  const SolverParameters defaults;
  const auto texts = parameter_texts(defaults);
  for (std::size_t k = 0; k < texts.size(); ++k) {
    const std::string& name = texts[k].name;
    CAPTURE(name);
    SolverParameters parameters;
    set_parameter(parameters, name + "=" + texts[k].value);  // a default lies in its range
    CHECK(value_of(parameters, name) == texts[k].value);
    // Half of a part lies in every range of parts; twice a number in all others.
    const double value = std::stod(texts[k].value);
    const std::string other = fmt::format("{}", value < 1 ? value / 2 : value * 2);
    set_parameter(parameters, name + "=" + other);
    CHECK(std::stod(value_of(parameters, name)) == std::stod(other));
    const auto after = parameter_texts(parameters);
    for (std::size_t j = 0; j < texts.size(); ++j) {
      if (j != k) CHECK(after[j].value == texts[j].value);
    }
  }
}

TEST_CASE("unknown parameters and bad values are refused, and change nothing") {
  const auto refuse = [](const char* assignment, const char* part) {
    SolverParameters parameters;
    CAPTURE(assignment);
    CHECK_THROWS_WITH(set_parameter(parameters, assignment), Contains(part));
    const auto texts = parameter_texts(parameters);
    const auto defaults = parameter_texts({});
    for (std::size_t k = 0; k < texts.size(); ++k) CHECK(texts[k].value == defaults[k].value);
  };
  refuse("relaxation.first_sweep=3", "names like it: relaxation.first_sweeps, ");
  refuse("firstsweeps=3", "relaxation.first_sweeps");
  refuse("relaxation.first_sweeps", "NAME=VALUE");
  refuse("relaxation.first_sweeps=", "a whole number from 1 to");
  refuse("relaxation.first_sweeps=2.5", "a whole number from 1 to");
  refuse("relaxation.first_sweeps=0", "a whole number from 1 to");
  refuse("relaxation.first_sweeps=9 ", "a whole number from 1 to");
  refuse("relaxation.least_gain=1.5", "a number from 0 to 1");
  refuse("relaxation.least_gain=nan", "a number from 0 to 1");
  refuse("relaxation.least_gain=x", "a number from 0 to 1");
}

TEST_CASE("the solver follows its parameters") {
  AssignmentProblem problem;
  for (int i = 0; i < 2; ++i) {
    problem.nodes.push_back({.costs = {1, 2}, .usages = {5, 3}, .first = 0, .end = 1});
  }
  problem.edges = {{.a = 0, .b = 1, .costs = {0, 3, 3, 1}}};
  problem.usage_limits = {8};
  SolveOptions options;
  CHECK(solve(problem, options).glpk_seconds == 0);
  set_parameter(options.parameters, "exact.most_nodes_for_labels=0");
  CHECK(solve(problem, options).glpk_seconds > 0);
  set_parameter(options.parameters, "exact.most_strategies_for_glpk=0");
  CHECK(solve(problem, options).glpk_seconds == 0);
}
