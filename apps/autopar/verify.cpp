#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/problems.h"
#include "commands.h"
#include "input_options.h"
#include "launch.h"
#include "model_options.h"
#include "planner/verify.h"

namespace autopar {

namespace {

struct VerifyCommand {
  planner::ModelOptions model;
  std::filesystem::path dir;
  InputOptions inputs;
  std::optional<double> tolerance;  ///< by the model's types if absent
  LaunchChoice launching;
  runtime::DeviceOptions device;
  bool json = false;

  void run() const {
    runtime::NamedTensors tensors;
    Problems problems;
    problems.collect([&] { check_threads(device.threads); });
    if (tolerance && !(*tolerance >= 0)) problems.add("--tolerance {}: give 0 or more", *tolerance);
    problems.collect([&] {
      InputOptions some_inputs = inputs;
      if (!some_inputs.random_seed) some_inputs.random_seed = 0;
      tensors = some_inputs.load(bundle::load_meta_info(dir));
    });
    problems.throw_if_any();

    const auto verification =
        planner::verify(model, dir, tensors, {.device = device, .launch = launching.checked()});
    if (verification) report(*verification);
  }

 private:
  void report(const planner::Verification& verification) const {
    nlohmann::json errors = nlohmann::json::object();
    for (const auto& [name, error] : verification.outputs) {
      errors[name] = error;
      if (!json) fmt::print("{}: largest relative error {:.3g}\n", name, error);
    }
    if (json) fmt::print("{}\n", nlohmann::json{{"largest_relative_error", errors}}.dump(2));
    if (verification.outputs.empty()) return;
    const double allowed = tolerance.value_or(verification.tolerance);
    const auto& [name, error] = verification.worst();
    if (error > allowed) {
      fail("output '{}' of {} differs from the whole model by {:.3g} (allowed: {:.3g})", name,
           dir.string(), error, allowed);
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
  add_limits_option(*sub, command->model.limits);
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
