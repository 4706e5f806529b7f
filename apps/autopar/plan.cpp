#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/problems.h"
#include "commands.h"
#include "model_options.h"
#include "planner/sizing.h"
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
  planner::SizingOptions sizing{.devices = {plan.device}};  ///< --ngpus, --device and --price
  planner::ReportOptions report{};                          ///< without a file for none

  bool makes_table() const {
    return sizing.ngpus.size() > 1 || sizing.devices.size() > 1 || !sizing.prices.empty();
  }

  void run() {
    if (!compare.empty()) {
      if (has_report()) planner::check_report_options(report);
      if (has_report()) planner::save_comparison_report(compare[0], compare[1], report);
      fmt::print("{}", planner::compare(compare[0], compare[1], json));
      return;
    }
    check_usage(plan);
    if (makes_table()) return print_sizing();
    plan.ngpus = sizing.ngpus.front();
    plan.device = sizing.devices.front();
    planner::check_options(model, plan, [&] { check_files(); });
    const planner::Model loaded = planner::load_model(model, plan);
    if (!explain.empty()) return print_explanation(loaded);
    const planner::Plan found = planner::plan(loaded, plan);
    if (!simulate.empty()) planner::save_simulation(found, simulate);
    if (has_report()) planner::save_report(found, report);
    fmt::print("{}", json ? planner::plan_json(found) + "\n" : planner::report_text(found));
    if (found.summary().interrupted) throw CLI::RuntimeError(interrupted);
  }

 private:
  void print_sizing() const {
    Problems problems;
    problems.collect([&] { planner::check_sizing(model, plan, sizing); });
    if (has_report()) problems.collect([&] { planner::check_report_options(report); });
    problems.throw_if_any();
    const planner::Model loaded = planner::load_model(model, plan);
    const planner::Sizing found = planner::size(loaded, plan, sizing);
    if (has_report()) planner::save_sizing_report(loaded, found, report);
    fmt::print("{}", json ? planner::sizing_json(found) + "\n" : planner::sizing_text(found));
    if (found.interrupted) throw CLI::RuntimeError(interrupted);
  }

  bool has_report() const { return !report.file.empty(); }

  void check_files() const {
    Problems problems;
    if (!simulate.empty() && explain.empty())
      problems.collect([&] { planner::check_trace_file(simulate); });
    if (has_report()) problems.collect([&] { planner::check_report_options(report); });
    problems.throw_if_any();
  }

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

/// CLI11 leaves out what would be empty at the end.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> entries = CLI::detail::split(text, ',');
  if (text.empty() || text.back() == ',') entries.emplace_back();
  return entries;
}

std::vector<int> parse_numbers(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& entry : split_list(text)) {
    int number = 0;
    if (!CLI::detail::lexical_cast(entry, number)) throw CLI::ConversionError(text, "--ngpus");
    numbers.push_back(number);
  }
  return numbers;
}

/// A file's name may have commas.
std::vector<std::string> parse_devices(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return {text};
  return split_list(text);
}

/// Here they take lists, too, which make a table of the answer.
void add_lists_of_devices(CLI::App& sub, PlanCommand& command) {
  for (const char* name : {"--ngpus", "--device"}) sub.remove_option(sub.get_option(name));
  planner::SizingOptions& sizing = command.sizing;
  sub.add_option_function<std::string>(
         "--ngpus", [&sizing](const std::string& text) { sizing.ngpus = parse_numbers(text); },
         "Devices to split the model over; a list, 1,2,4,8, makes a table, a plan a row")
      ->type_name("INT,...")
      ->required();
  sub.add_option_function<std::string>(
         "--device", [&sizing](const std::string& text) { sizing.devices = parse_devices(text); },
         fmt::format("A device file, or one of {}; or a list, as of --ngpus",
                     fmt::join(planner::device_names(), ", ")))
      ->type_name("TEXT,...")
      ->default_str(command.plan.device);
  sub.add_option_function<std::string>(
      "--price",
      [&sizing](const std::string& text) { sizing.prices = planner::parse_prices(text); },
      "What a device costs an hour, h100=2.5,h200=3.5: the table tells the cheapest");
}

/// Throws where lists are given together with an option that tells of one plan.
void check_lists(const CLI::App& sub, const PlanCommand& command) {
  if (!command.makes_table()) return;
  for (const char* name : {"--explain", "--simulate", "--measured"})
    if (sub.get_option(name)->count() > 0)
      throw CLI::ValidationError(name,
                                 "tells of one plan: give one --ngpus, one --device and no "
                                 "--price");
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* sub = app.add_subcommand("plan", "Search for a plan without writing shards");
  add_model_options(*sub, command->model);
  add_plan_options(*sub, command->plan);
  add_lists_of_devices(*sub, *command);
  add_operators_option(*sub);
  sub->add_option("--explain", command->explain,
                  "Tell of an operator's candidates: a name, or a glob whose first match counts");
  sub->add_option("--simulate", command->simulate,
                  "Play the plan on the cost model and write the trace, as run --profile does");
  const CompareOption compare(*sub, *command);
  add_report_options(*sub, command->report);
  sub->get_option("--explain")->excludes("--report");
  sub->get_option("--measured")->excludes("--compare");
  sub->add_flag("--json", command->json, "Print JSON, a plan as plan.json has it");
  sub->callback([command, compare, sub] {
    compare.check();
    check_lists(*sub, *command);
    command->run();
  });
}

}  // namespace autopar
