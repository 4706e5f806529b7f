#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/partial_file.h"
#include "bundle/meta_info.h"
#include "commands.h"
#include "graph/onnx/onnx_overview.h"
#include "model_options.h"
#include "planner/load_model.h"
#include "planner/profiles.h"
#include "planner/summary.h"

namespace autopar {

using planner::assumed_line;
using planner::collectives_table;
using planner::in_bytes;
using planner::in_seconds;
using planner::tail_text;

namespace {

nlohmann::json ports_json(const std::vector<graph::ModelOverview::Port>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& port : ports) {
    list.push_back({{"name", port.name}, {"type", name_of(port.type)}, {"dims", port.dims}});
  }
  return list;
}

/// What is known before a run of the model's end, whose shapes only the run tells.
struct EndOfModel {
  std::optional<graph::TailSummary> tail;
  graph::Assumptions assumed;  ///< of the shapes that the tail is for
  std::string refusal;         ///< where the tail would be nearly all of the model
};

void print_model(const graph::ModelOverview& model, const EndOfModel& end, bool json) {
  if (json) {
    nlohmann::json whole{{"version", 1},
                         {"producer", model.producer},
                         {"ir_version", model.ir_version},
                         {"opsets", model.opsets},
                         {"inputs", ports_json(model.inputs)},
                         {"outputs", ports_json(model.outputs)},
                         {"operators", model.operators},
                         {"weights", model.weights},
                         {"weight_bytes", model.weight_bytes}};
    if (end.tail) whole["tail"] = bundle::to_json(*end.tail);
    if (!end.refusal.empty()) whole["refusal"] = end.refusal;
    fmt::print("{}\n", whole.dump(2));
    return;
  }
  fmt::print("made by {}\n", model.producer.empty() ? "an unnamed producer" : model.producer);
  for (const auto& [domain, version] : model.opsets) {
    fmt::print("opset {} {}\n", domain.empty() ? "ai.onnx" : domain, version);
  }
  const auto print_port = [](const char* what, const graph::ModelOverview::Port& port) {
    fmt::print("{} {} {} [{}]\n", what, port.name, name_of(port.type), fmt::join(port.dims, ", "));
  };
  for (const auto& port : model.inputs) print_port("input", port);
  for (const auto& port : model.outputs) print_port("output", port);
  fmt::print("{} weights, {}\n", model.weights, in_bytes(model.weight_bytes));
  for (const auto& [op_type, count] : model.operators) fmt::print("{:>6} {}\n", count, op_type);
  if (end.tail) fmt::print("{}{}", assumed_line(end.assumed), tail_text(*end.tail));
  if (!end.refusal.empty()) fmt::print("cannot be split: {}\n", end.refusal);
}

/// The specs of the stages that have it.
std::string specs_text(const bundle::PortInfo& port) {
  std::string text;
  for (std::size_t s = 0; s < port.specs.size(); ++s) {
    if (port.specs[s].empty()) continue;
    text += (text.empty() ? "" : ", ") + port.specs[s];
    if (port.specs.size() > 1) text += fmt::format(" on stage {}", s);
  }
  return text;
}

void print_bundle(const bundle::MetaInfo& info, bool json) {
  if (json) {
    fmt::print("{}\n", bundle::to_json(info).dump(2));
    return;
  }
  fmt::print("{}, planned for {}", info.model, info.device);
  if (info.microbatches > 1) fmt::print(", in {} microbatches", info.microbatches);
  fmt::print("\n");
  for (const bundle::StageInfo& stage : info.stages) {
    std::vector<int> sizes;
    for (const bundle::MeshAxis& axis : stage.mesh) sizes.push_back(axis.size);
    fmt::print("stage {}: ranks {}-{} on a mesh of {}, {} a microbatch predicted\n", stage.stage,
               stage.ranks.front(), stage.ranks.back(), fmt::join(sizes, "x"),
               in_seconds(stage.seconds));
  }
  const auto print_port = [](const char* what, const bundle::PortInfo& port) {
    fmt::print("{} {} {} {} {}\n", what, port.name, name_of(port.type),
               graph::to_string(port.shape), specs_text(port));
  };
  for (const bundle::ProfileInfo& profile : info.profiles) {
    if (info.profiles.size() > 1)
      fmt::print("profile {}: weight {}, {} predicted\n", profile.binding, profile.weight,
                 in_seconds(profile.cost_seconds));
    for (const bundle::PortInfo& port : profile.inputs) print_port("input", port);
    for (const bundle::PortInfo& port : profile.outputs) print_port("output", port);
  }
  for (const bundle::RankInfo& rank : info.ranks) {
    fmt::print("rank {} at ({}) of stage {}: {} of weights, {} at the peak\n", rank.rank,
               fmt::join(rank.coordinates, ","), rank.stage, in_bytes(rank.weight_bytes),
               in_bytes(rank.peak_bytes));
  }
  if (info.tail) fmt::print("{}", tail_text(info.tail->summary));
  fmt::print("a run: {} predicted, no plan below {}{}\n", in_seconds(info.cost_seconds),
             in_seconds(info.lower_bound_seconds), info.proven_optimal ? ", proven optimal" : "");
  for (const bundle::ProfileInfo& profile : info.profiles)
    fmt::print("communication of a run{}, over all ranks:\n{}",
               info.profiles.size() > 1 ? " of " + profile.binding : "",
               collectives_table(profile.collectives));
}

struct InspectCommand {
  planner::ModelOptions model{.weights_may_be_absent = true};
  planner::ReportOptions report{};  ///< of a bundle; without a file for none
  bool json = false;

  void run() const {
    const std::filesystem::path& what = model.file;
    put_back_replaced(what);
    if (!report.file.empty()) check_report();
    if (std::filesystem::is_directory(what)) {
      if (!model.shapes.empty())
        fail("--shape {}: a bundle has its profiles; leave it out", model.shapes.front());
      const bundle::MetaInfo info = bundle::load_meta_info_of_any(what);
      bundle::check_all_files(info, what);
      if (!report.file.empty()) planner::save_report(what, report, model.limits);
      print_bundle(info, json);
    } else {
      check_one_profile();
      print_model(graph::onnx_overview(what), end_of_model(), json);
    }
  }

 private:
  void check_report() const {
    if (!std::filesystem::is_directory(model.file))
      fail("--report {}: of a model, give it to plan, which knows how it is split",
           report.file.string());
    planner::check_report_options(report);
  }

  void check_one_profile() const {
    const std::size_t profiles = planner::profiles_of(model).size();
    if (profiles > 1)
      fail("--shape: lists of {} values; inspect tells of one profile: give each --shape one value",
           profiles);
  }

  /// Empty where the model is refused for a reason apart from its end.
  EndOfModel end_of_model() const {
    try {
      const graph::Imported imported = planner::load_graph(model);
      return {imported.tail ? std::optional(imported.tail->summary) : std::nullopt,
              imported.assumed, ""};
    } catch (const graph::UnknownShape& refusal) {
      return {std::nullopt, {}, refusal.what()};
    } catch (const Error&) {
      if (!model.shapes.empty()) throw;
      return {};
    }
  }
};

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "What is in a model or a bundle");
  sub->add_option("what", command->model.file, "An ONNX file or a bundle")->required();
  add_limits_option(*sub, command->model.limits);
  sub->add_option(
         "--shape", command->model.shapes,
         "Shape of a model input, NAME=1x128 or a glob, or extent of a symbol, batch=1, with "
         "which the end of the model is told whose shapes only a run tells; may be repeated")
      ->allow_extra_args(false);
  add_report_options(*sub, command->report);
  sub->add_flag("--json", command->json, "Print it as JSON");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
