#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "commands.h"
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

  void run() const {
    check_usage(plan);
    planner::check_options(model, plan, [&] { planner::check_output_folder(bundle); });
    const planner::Model loaded = planner::load_model(model, plan);
    warn_of_missing_kernels(loaded);
    const planner::Plan found = planner::plan(loaded, plan);
    fmt::print(stderr, "{}", planner::write_bundle(found, bundle));
    fmt::print("{}\n", bundle.out.string());
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
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
