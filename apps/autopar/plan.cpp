#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "model_options.h"
#include "progress.h"

namespace autopar {

namespace {

constexpr int interrupted = 128 + SIGINT;  ///< the exit code, as shells have it

struct PlanCommand {
  planner::ModelOptions model{.weights_may_be_absent = true};
  planner::PlanOptions plan{.progress = show_progress};
  bool json = false;
  std::string explain;                           ///< an operator's name or a glob; empty for none
  std::vector<std::filesystem::path> compare{};  ///< two, or none
  std::filesystem::path simulate{};              ///< the trace to write; empty for none

  void run() const {
    if (!compare.empty()) {
      fmt::print("{}", planner::compare(compare[0], compare[1], json));
      return;
    }
    check_usage(plan);
    planner::check_options(model, plan, [&] {
      if (!simulate.empty() && explain.empty()) planner::check_trace_file(simulate);
    });
    const planner::Model loaded = planner::load_model(model, plan);
    if (!explain.empty()) return print_explanation(loaded);
    const planner::Plan found = planner::plan(loaded, plan);
    if (!simulate.empty()) planner::save_simulation(found, simulate);
    fmt::print("{}", json ? planner::plan_json(found) + "\n" : planner::report_text(found));
    if (found.summary().interrupted) throw CLI::RuntimeError(interrupted);
  }

 private:
  void print_explanation(const planner::Model& loaded) const {
    if (!simulate.empty()) fail("--simulate {}: leave it out with --explain", simulate.string());
    fmt::print("{}", planner::explain(loaded, plan, explain, json));
  }
};

/// Two plan files need neither a model nor options of a search; without them some are required.
class CompareOption {
 public:
  CompareOption(CLI::App& sub, PlanCommand& command)
      : option_(sub.add_option("--compare", command.compare,
                               "Tell two plans apart: two plan.json files, or bundles' folders; "
                               "without a model and --ngpus, which are else required")
                    ->expected(2)) {
    for (CLI::Option* other : sub.get_options()) {
      if (other == option_ || other == sub.get_help_ptr()) continue;
      others_.push_back(other);
      if (other->get_required()) required_.push_back(other);
      other->required(false);
    }
  }

  void check() const {
    const bool compares = option_->count() > 0;
    for (const CLI::Option* other : others_) {
      const bool is_given = other->count() > 0;
      if (compares && is_given) throw CLI::ExcludesError("--compare", other->get_name());
    }
    for (const CLI::Option* required : required_) {
      const bool is_given = required->count() > 0;
      if (!compares && !is_given) throw CLI::RequiredError(required->get_name());
    }
  }

 private:
  CLI::Option* option_;
  std::vector<const CLI::Option*> others_;    ///< that were there before it
  std::vector<const CLI::Option*> required_;  ///< without it
};

}  // namespace

void add_plan_command(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* sub = app.add_subcommand("plan", "Search for a plan without writing shards");
  add_model_options(*sub, command->model);
  add_plan_options(*sub, command->plan);
  add_operators_option(*sub);
  sub->add_option("--explain", command->explain,
                  "Tell of an operator's candidates: a name, or a glob whose first match counts");
  sub->add_option("--simulate", command->simulate,
                  "Play the plan on the cost model and write the trace, as run --profile does");
  const CompareOption compare(*sub, *command);
  sub->add_flag("--json", command->json, "Print JSON, a plan as plan.json has it");
  sub->callback([command, compare] {
    compare.check();
    command->run();
  });
}

}  // namespace autopar
