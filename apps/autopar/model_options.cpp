#include "model_options.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "graph/onnx/import_limits.h"

namespace autopar {

void add_model_options(CLI::App& command, planner::ModelOptions& options) {
  command.add_option("model", options.file, "The ONNX file")->required();
  command
      .add_option(
          "--shape", options.shapes,
          "Shape of a model input, NAME=1x128 (a glob for several), or extent of a symbol, "
          "batch=1; a list, sequence=1,128, makes profiles that are planned together; may be "
          "repeated (what is left open: batch 1, all else 128)")
      ->allow_extra_args(false);  // one each, or it would swallow the model
  command
      .add_option("--profile-weights", options.profile_weights,
                  "How often each profile of --shape's lists runs, 64,1 (default: all alike)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option(
          "--constant", options.constants,
          "Value of a model input that shapes depend on, NAME=FILE (.npy or .pb), for good; "
          "may be repeated")
      ->allow_extra_args(false);
  command
      .add_option(
          "--loop", options.loops,
          "Outputs that are inputs of a run's next step, present.*=past.*: each such pair is "
          "split in one way (default: as names tell, past_key_values.0.key and present.0.key; "
          "none: "
          "no such pairs); may be repeated")
      ->allow_extra_args(false);
  add_limits_option(command, options.limits);
}

void add_limits_option(CLI::App& command, std::string& limits) {
  const graph::ImportLimits usual;
  command.add_option(
      "--limits", limits,
      fmt::format("What the model may grow to while it is read, of a few or all: nodes made by "
                  "functions and loops, rounds of loops, outputs of a node, bytes of constants "
                  "(default: nodes={},rounds={},outputs={},constants={}GiB)",
                  usual.nodes, usual.rounds, usual.outputs, usual.constants >> 30));
}

void add_plan_options(CLI::App& command, planner::PlanOptions& options) {
  command.add_option("--ngpus", options.ngpus, "Devices to split the model over")->required();
  command.add_option("--mesh", options.mesh,
                     "The devices as a mesh, e.g. 2x4, or auto: the best one (default: one axis)");
  command
      .add_option(
          "--device", options.device,
          fmt::format("A device file, or one of {}", fmt::join(planner::device_names(), ", ")))
      ->capture_default_str();
  command
      .add_option("--memory", options.memory,
                  "fair (1.25/N of the weights a rank), device, or a size such as 80GiB")
      ->capture_default_str();
  command.add_option("--search", options.search, "How the plan is searched for: ilp is exact")
      ->check(CLI::IsMember({"ilp", "propagation", "recursive"}))
      ->capture_default_str();
  command.add_flag("--bound", options.bound,
                   "Have the exact search prove a bound for another search's plan");
  command.add_flag_callback(
      "--no-presolve", [&options] { options.presolve = false; },
      "Hand GLPK the whole ILP (with --search ilp)");
  command.add_option("--strategy", options.strategy,
                     "What pins operators' strategies: a JSON file, or an ONNX model with "
                     "multi-device annotations, MODEL.onnx");
  command.add_option("--time-limit", options.time_limit_seconds, "Seconds for the search")
      ->capture_default_str();
  command
      .add_option("--stages", options.stages,
                  "Pipeline stages, each on devices of its own: a number, or auto for the best")
      ->capture_default_str();
  command
      .add_option("--microbatches", options.microbatches,
                  "Parts of the batch that follow one another through the stages")
      ->capture_default_str();
  command
      .add_option("--batch", options.batch,
                  "An input whose first dimension is the batch, or NAME=1 where it is dimension 1 "
                  "(default: the first input's, wherever it is); may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--objective", options.objective,
                  "Of stages: latency of a run, or throughput of runs that follow one another")
      ->check(CLI::IsMember({"latency", "throughput"}))
      ->capture_default_str();
  command
      .add_option("--shards", options.shards,
                  "What is written of the plan: " + planner::shard_flavours_text())
      ->check(CLI::IsMember(planner::shard_flavour_names()))
      ->capture_default_str();
  command.add_flag("--discover", options.discover,
                   "Find out how operators without a sharding rule split, by running them");
}

void add_operators_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--operators",
          [](const std::vector<std::string>& libraries) {
            for (const std::string& library : libraries) planner::load_operators(library);
          },
          "A shared library with operators of your own (autopar_operator.h); may be repeated")
      ->allow_extra_args(false);
}

void add_report_options(CLI::App& command, planner::ReportOptions& options) {
  CLI::Option* report = command.add_option(
      "--report", options.file, "Write a page that shows it, one HTML file that needs no network");
  command
      .add_option("--measured", options.measured,
                  "A trace of run --profile, to be shown in the report beside what is predicted")
      ->needs(report);
}

void check_usage(const planner::PlanOptions& options) {
  if (!options.presolve && options.search != "ilp")
    throw CLI::ValidationError("--no-presolve", "is for --search ilp alone; leave it out");
}

}  // namespace autopar
