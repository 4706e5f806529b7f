#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/problems.h"
#include "base/temporary_folder.h"
#include "bundle/tail_info.h"
#include "commands.h"
#include "input_options.h"
#include "launch.h"
#include "operator_options.h"
#include "planner/load_model.h"
#include "runtime/rank_device.h"
#include "runtime/run_whole.h"
#include "runtime/session.h"
#include "runtime/tail_run.h"
#include "runtime/tensor_files.h"

namespace autopar {

namespace {

/// How far sums in another order may be apart in a model that computes in this type.
double tolerance_of(graph::DataType type) {
  if (type == graph::DataType::float16) return 1e-2;
  return type == graph::DataType::bfloat16 ? 8e-2 : 1e-4;
}

double tolerance_of(const graph::Graph& model) {
  double largest = 0;
  for (const graph::Value& value : model.values)
    largest = std::max(largest, tolerance_of(value.type));
  return largest;
}

struct VerifyCommand {
  planner::ModelOptions model;
  std::filesystem::path dir;
  InputOptions inputs;
  std::optional<double> tolerance;  ///< by the model's types if absent
  LaunchChoice launching;
  runtime::DeviceOptions device;
  bool json = false;

  void run() const {
    bundle::MetaInfo info;
    runtime::NamedTensors tensors;
    Problems problems;
    problems.collect([&] { check_threads(device.threads); });
    if (tolerance && !(*tolerance >= 0)) problems.add("--tolerance {}: give 0 or more", *tolerance);
    problems.collect([&] {
      info = bundle::load_meta_info(dir);
      InputOptions some_inputs = inputs;
      if (!some_inputs.random_seed) some_inputs.random_seed = 0;
      tensors = some_inputs.load(info);
    });
    problems.throw_if_any();

    runtime::Session session(dir, {.device = device, .launch = launching.checked()});
    const runtime::RunResult sharded = session.run(tensors);
    if (!session.has_first_rank()) return;
    const graph::Imported whole_model = load_whole_model(info);
    runtime::NamedTensors whole = runtime::run_whole(whole_model.graph, tensors, device);
    if (whole_model.tail) whole = outputs_of_tail(*whole_model.tail, tensors, whole);
    report(bundle::model_outputs(info, bundle::load_tail_info(dir, info)), whole, sharded.outputs,
           tolerance.value_or(tolerance_of(whole_model.graph)));
  }

 private:
  /// With the input shapes that the bundle was made for.
  graph::Imported load_whole_model(const bundle::MetaInfo& info) const {
    planner::ModelOptions with_shapes = model;
    for (const bundle::PortInfo& input : info.inputs) {
      if (!input.shape.empty())
        with_shapes.shapes.push_back(input.name + "=" + graph::to_string(input.shape));
    }
    return planner::load_graph(with_shapes);
  }

  runtime::NamedTensors outputs_of_tail(const graph::Tail& tail, const runtime::NamedTensors& read,
                                        const runtime::NamedTensors& made) const {
    const TemporaryFolder folder;
    graph::save_tail(tail, folder / "tail.onnx", folder / "tail.data");
    const int threads = runtime::threads_of(device, {.rank = 0, .count = 1});
    return runtime::TailRun(folder / "tail.onnx", tail.summary, threads).run(read, made);
  }

  void report(const std::vector<graph::ModelOutput>& outputs, const runtime::NamedTensors& whole,
              const runtime::NamedTensors& sharded, double allowed) const {
    nlohmann::json errors = nlohmann::json::object();
    std::string worst_output;
    double worst = 0;
    for (const graph::ModelOutput& output : outputs) {
      const auto reference = whole.find(output.name);
      if (reference == whole.end()) {
        fail("{} has no output '{}', which {} has; verify a bundle with the model it was made from",
             model.file.string(), output.name, dir.string());
      }
      const double error =
          runtime::largest_relative_error(reference->second, sharded.at(output.name));
      errors[output.name] = error;
      if (!json) fmt::print("{}: largest relative error {:.3g}\n", output.name, error);
      if (error >= worst) {
        worst = error;
        worst_output = output.name;
      }
    }
    if (json) fmt::print("{}\n", nlohmann::json{{"largest_relative_error", errors}}.dump(2));
    if (worst > allowed) {
      fail("output '{}' of {} differs from the whole model by {:.3g} (allowed: {:.3g})",
           worst_output, dir.string(), worst, allowed);
    }
  }
};

}  // namespace

void add_verify_command(CLI::App& app) {
  auto command = std::make_shared<VerifyCommand>();
  CLI::App* sub = app.add_subcommand(
      "verify", "Run the whole model and its bundle on the same inputs and compare");
  sub->add_option("model", command->model.file, "The ONNX file")->required();
  sub->add_option("dir", command->dir, "The bundle")->required();
  command->inputs.add_to(*sub);
  add_operators_option(*sub);
  sub->add_option("--constant", command->model.constants,
                  "As the model was partitioned with, NAME=FILE (.npy or .pb); may be repeated")
      ->allow_extra_args(false);
  sub->add_option(
      "--tolerance", command->tolerance,
      "Largest relative error allowed (default: 1e-4; 1e-2 for models with float16, 8e-2 "
      "with bfloat16)");
  sub->add_option("--threads", command->device.threads,
                  "Threads a rank (default: cores over local ranks)");
  command->launching.add_timeout_to(*sub);
  sub->add_flag("--json", command->json, "Print the errors as JSON");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
