#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "log.h"
#include "model_options.h"
#include "progress.h"

namespace autopar {

namespace {

/// No error: other runtimes may have those kernels.
void warn_of_missing_kernels(const planner::Model& model) {
  const std::vector<std::string> missing = planner::operators_without_kernel(model);
  if (missing.empty()) return;
  spdlog::warn("autopar run has no CPU kernel for {}: it will refuse these shards",
               fmt::join(missing, ", "));
}

struct PartitionCommand {
  planner::ModelOptions model{.progress = show_progress};
  planner::PlanOptions plan{.progress = show_progress};
  planner::BundleOptions bundle{.progress = show_progress};
  bool json = false;

  void run() const {
    check_usage(plan);
    planner::check_options(model, plan, [&] { planner::check_output_folder(bundle); });
    const planner::Model loaded = planner::load_model(model, plan);
    warn_of_missing_kernels(loaded);
    const planner::Plan found = planner::plan(loaded, plan);
    const std::string told = planner::write_bundle(found, bundle);
    if (json) return print_json(found);
    tell(told);
    fmt::print("{}\n", bundle.out.string());
  }

 private:
  /// plan.json, which is in the bundle, without its operators.
  void print_json(const planner::Plan& found) const {
    nlohmann::json text = nlohmann::json::parse(planner::plan_json(found));
    text.erase("operators");
    text["bundle"] = bundle.out.string();
    fmt::print("{}\n", text.dump(2));
  }
};

}  // namespace

void add_partition_command(CLI::App& app) {
  auto command = std::make_shared<PartitionCommand>();
  CLI::App* sub = app.add_subcommand("partition", "Split a model: one ONNX shard a rank");
  add_model_options(*sub, command->model);
  add_plan_options(*sub, command->plan);
  add_operators_option(*sub);
  sub->add_option("--out", command->bundle.out, "The bundle to write, a new folder")->required();
  sub->add_flag("--force", command->bundle.force, "Replace an existing bundle");
  sub->add_flag("--json", command->json, "Print the plan's summary as JSON");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
