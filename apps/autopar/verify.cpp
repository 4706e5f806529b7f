#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/problems.h"
#include "commands.h"
#include "input_options.h"
#include "launch.h"
#include "model_options.h"
#include "planner/verify.h"
#include "runtime/tensor_folder.h"

namespace autopar {

namespace {

struct VerifyCommand {
  planner::ModelOptions model;
  std::filesystem::path dir;
  InputOptions inputs;
  std::filesystem::path expected;   ///< a folder of outputs; empty: those of the whole model
  std::optional<double> tolerance;  ///< by the model's types if absent
  LaunchChoice launching;
  runtime::DeviceOptions device;
  bool json = false;

  void run() const {
    runtime::NamedTensors tensors;
    runtime::LaunchOptions launch;
    Problems problems;
    problems.collect([&] { launch = launching.checked(); });
    problems.collect([&] { check_threads(device.threads); });
    if (tolerance && !(*tolerance >= 0)) problems.add("--tolerance {}: give 0 or more", *tolerance);
    problems.collect([&] { tensors = load_inputs(); });
    problems.throw_if_any();

    const auto verification =
        planner::verify(model, dir, tensors, {.device = device, .launch = launch}, expected);
    if (verification) report(*verification);
  }

 private:
  /// What is given, then what the expected outputs' folder has, then random values where nothing
  /// is expected.
  runtime::NamedTensors load_inputs() const {
    if (!expected.empty() && !std::filesystem::is_directory(expected))
      fail("--expected {} is no folder", expected.string());
    const bundle::MetaInfo info = bundle::load_meta_info(dir);
    InputOptions all = inputs;
    if (expected.empty()) {
      if (!all.random_seed) all.random_seed = 0;
      return all.load(info);
    }
    std::vector<std::string> names;
    for (const bundle::PortInfo& port : info.profiles.front().inputs) names.push_back(port.name);
    for (const auto& [name, file] : runtime::find_tensor_files(expected, "input", names))
      if (!is_given(name)) all.files.push_back(name + "=" + file.string());
    return all.load(info);
  }

  bool is_given(const std::string& input) const {
    return std::ranges::any_of(
        inputs.files, [&](const std::string& text) { return text.starts_with(input + "="); });
  }

  void report(const planner::Verification& verification) const {
    const double allowed = tolerance.value_or(verification.tolerance);
    const bool passed =
        verification.outputs.empty() || verification.worst().relative_error <= allowed;
    nlohmann::json errors = nlohmann::json::object();
    for (const auto& [name, error] : verification.outputs) {
      errors[name] = json_number(error);
      if (!json) fmt::print("{}: largest relative error {:.3g}\n", name, error);
    }
    if (json) {
      const nlohmann::json told{{"version", 1},
                                {"passed", passed},
                                {"tolerance", allowed},
                                {"largest_relative_error", errors}};
      fmt::print("{}\n", told.dump(2));
    }
    if (passed) return;
    const auto& [name, error] = verification.worst();
    fail("output '{}' of {} differs from {} by {:.3g} (allowed: {:.3g})", name, dir.string(),
         expected.empty() ? "the whole model" : expected.string(), error, allowed);
  }

  /// JSON has no infinity: "infinity" instead, for what cannot be compared.
  static nlohmann::json json_number(double error) {
    return std::isfinite(error) ? nlohmann::json(error) : nlohmann::json("infinity");
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
  sub->add_option("--expected", command->expected,
                  "Compare with the outputs of this folder instead, NAME.npy or NAME.pb, or a "
                  "folder of ONNX's tests, and take its inputs");
  sub->add_option(
      "--tolerance", command->tolerance,
      "Largest relative error allowed (default: 1e-4; 1e-2 for models with float16, 8e-2 "
      "with bfloat16)");
  sub->add_option("--threads", command->device.threads,
                  "Threads a rank (default: cores over local ranks)");
  command->launching.add_to(*sub);
  sub->add_flag("--json", command->json, "Print errors, tolerance and verdict as JSON");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
