#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "model_options.h"
#include "planner/write_bundle.h"
#include "progress.h"
#include "runtime/kernel.h"
#include "summary.h"

namespace autopar {

namespace {

struct PartitionCommand {
  ModelOptions model;
  PlanOptions plan;
  std::filesystem::path out;
  bool force = false;

  void run() const {
    planner::BundleOptions bundle_options{
        .out = out, .model_name = model.model.filename().string(), .force = force};
    auto [meshes, search_options] =
        make_search_setup(plan, model, [&] { planner::check_output_folder(bundle_options); });
    bundle_options.run_bytes = run_bytes_on(meshes.front().device());

    const BatchedModel loaded = load();
    if (loaded.tail) bundle_options.tail = &*loaded.tail;
    fit_to_model(meshes, loaded.whole);
    const plan::PipelinePlan found = find_plan(loaded, plan, meshes, search_options);
    const bundle::MetaInfo written = write(loaded, found, meshes.front().device(), bundle_options);

    fmt::print(stderr, "{}", plan_summary(found, written.collectives));
    if (loaded.tail) fmt::print(stderr, "{}", tail_text(loaded.tail->summary));
    fmt::print("{}\n", out.string());
  }

 private:
  BatchedModel load() const {
    const Progress progress("reading " + model.model.string());
    BatchedModel loaded = load_batched_model(model, plan, /*weights_may_be_absent=*/false);
    warn_of_missing_kernels(loaded.whole);
    return loaded;
  }

  /// The shards are good for other runtimes all the same.
  static void warn_of_missing_kernels(const graph::Graph& graph) {
    std::set<std::string> op_types;
    for (const graph::Node& node : graph.nodes) {
      if (!runtime::cpu_kernels().find(node.domain, node.op_type)) {
        op_types.insert(qualified_op_type(node));
      }
    }
    if (op_types.empty()) return;
    spdlog::warn("autopar run has no CPU kernel for {}: it will refuse these shards",
                 fmt::join(op_types, ", "));
  }

  static bundle::MetaInfo write(const BatchedModel& model, const plan::PipelinePlan& plan,
                                const cost::DeviceModel& device,
                                const planner::BundleOptions& options) {
    const Progress progress("writing " + options.out.string());
    return planner::write_bundle(model.whole, model.split.ports, plan, device, options);
  }
};

}  // namespace

void add_partition_command(CLI::App& app) {
  auto command = std::make_shared<PartitionCommand>();
  CLI::App* sub = app.add_subcommand("partition", "Split a model: one ONNX shard a rank");
  command->model.add_to(*sub);
  command->plan.add_to(*sub);
  sub->add_option("--out", command->out, "The bundle to write, a new folder")->required();
  sub->add_flag("--force", command->force, "Replace an existing bundle");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
