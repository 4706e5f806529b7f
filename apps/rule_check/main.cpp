// Compares the table of sharding rules with what operators do: every choice that a rule allows is
// run, and every split that running finds is looked up.

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <set>

#include "base/error.h"
#include "check.h"
#include "evaluate.h"
#include "graph/onnx/infer_node.h"
#include "instances.h"
#include "sharding/rules/table.h"

namespace {

using namespace autopar;

constexpr int failed = 1;
constexpr int wrong_usage = 2;

struct Totals {
  int instances = 0;
  int unchecked = 0;
  int wrong = 0;
  int missed = 0;
  int explained = 0;
};

void print(const rule_check::Instance& instance, const rule_check::Findings& findings,
           Totals& totals) {
  ++totals.instances;
  if (!findings.unchecked.empty()) {
    ++totals.unchecked;
    fmt::print("unchecked  {}: {}\n", instance.text, findings.unchecked);
  }
  for (const std::string& choice : findings.wrong) {
    ++totals.wrong;
    fmt::print("wrong      {}: {}\n", instance.text, choice);
  }
  for (const rule_check::Missed& missed : findings.missed) {
    ++totals.missed;
    if (!missed.reason.empty()) ++totals.explained;
    fmt::print("missed     {}: {} ({})\n", instance.text, missed.split,
               missed.reason.empty() ? "NO REASON" : missed.reason);
  }
}

/// Whether every rule that splits anything has an instance.
bool table_is_covered(const std::set<std::string>& op_types) {
  bool is_covered = true;
  for (const sharding::RuleEntry& entry : sharding::rule_table()) {
    const std::string name =
        (entry.domain.empty() ? "" : std::string(entry.domain) + "::") + std::string(entry.op_type);
    if (op_types.contains(name) || entry.rule == sharding::rules::replicated) continue;
    fmt::print("no instance of {}\n", name);
    is_covered = false;
  }
  return is_covered;
}

bool run(const std::string& only) {
  const sharding::ShardRunner runner(rule_check::evaluate);
  Totals totals;
  std::set<std::string> op_types;
  for (const std::string_view text : rule_check::instances()) {
    if (!only.empty() && text.find(only) == std::string_view::npos) continue;
    rule_check::Instance instance;
    rule_check::Findings findings;
    try {
      instance = rule_check::parse_instance(text);
      findings = rule_check::check(instance, runner);
    } catch (const Error& error) {
      findings.unchecked = error.what();
      instance.text = text;
    }
    op_types.insert(rule_check::operator_of(text));
    print(instance, findings, totals);
  }
  const bool is_covered = !only.empty() || table_is_covered(op_types);
  fmt::print("{} instances: {} wrong, {} missed ({} with a reason), {} unchecked\n",
             totals.instances, totals.wrong, totals.missed, totals.explained, totals.unchecked);
  return is_covered && totals.wrong == 0 && totals.missed == totals.explained;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  spdlog::set_default_logger(spdlog::stderr_color_mt("rule_check"));
  spdlog::set_pattern("%^%l%$: %v");
  CLI::App app{"Compare the table of sharding rules with running the operators", "rule_check"};
  std::string only;
  app.add_option("--only", only, "instances whose line has this text");
  try {
    app.parse(argc, argv);
    return run(only) ? 0 : failed;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& usage) {
    app.exit(usage);
    return wrong_usage;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return failed;
  }
}
