#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bundle/meta_info.h"
#include "bundle/tail_info.h"
#include "commands.h"
#include "graph/onnx_overview.h"
#include "summary.h"

namespace autopar {

namespace {

nlohmann::json ports_json(const std::vector<graph::ModelOverview::Port>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& port : ports) {
    list.push_back({{"name", port.name}, {"type", name_of(port.type)}, {"dims", port.dims}});
  }
  return list;
}

void print_model(const graph::ModelOverview& model, bool json) {
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"producer", model.producer},
                                      {"ir_version", model.ir_version},
                                      {"opsets", model.opsets},
                                      {"inputs", ports_json(model.inputs)},
                                      {"outputs", ports_json(model.outputs)},
                                      {"operators", model.operators},
                                      {"weights", model.weights},
                                      {"weight_bytes", model.weight_bytes}}
                           .dump(2));
    return;
  }
  fmt::print("made by {}\n", model.producer.empty() ? "an unnamed producer" : model.producer);
  for (const auto& [domain, version] : model.opsets) {
    fmt::print("opset {} {}\n", domain.empty() ? "ai.onnx" : domain, version);
  }
  for (const auto& port : model.inputs) {
    fmt::print("input {} {} [{}]\n", port.name, name_of(port.type), fmt::join(port.dims, ", "));
  }
  for (const auto& port : model.outputs) {
    fmt::print("output {} {} [{}]\n", port.name, name_of(port.type), fmt::join(port.dims, ", "));
  }
  fmt::print("{} weights, {}\n", model.weights, in_bytes(model.weight_bytes));
  for (const auto& [op_type, count] : model.operators) fmt::print("{:>6} {}\n", count, op_type);
}

/// By the stages that have it.
std::string specs_text(const bundle::PortInfo& port) {
  std::string text;
  for (std::size_t s = 0; s < port.specs.size(); ++s) {
    if (port.specs[s].empty()) continue;
    text += (text.empty() ? "" : ", ") + port.specs[s];
    if (port.specs.size() > 1) text += fmt::format(" on stage {}", s);
  }
  return text;
}

void print_bundle(const bundle::MetaInfo& info, const std::optional<bundle::TailInfo>& tail,
                  bool json) {
  if (json) {
    fmt::print("{}\n", bundle::to_json(info, tail).dump(2));
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
  for (const bundle::PortInfo& port : info.inputs) {
    fmt::print("input {} {} {} {}\n", port.name, name_of(port.type), graph::to_string(port.shape),
               specs_text(port));
  }
  for (const bundle::PortInfo& port : info.outputs) {
    fmt::print("output {} {} {} {}\n", port.name, name_of(port.type), graph::to_string(port.shape),
               specs_text(port));
  }
  for (const bundle::RankInfo& rank : info.ranks) {
    fmt::print("rank {} at ({}) of stage {}: {} of weights, {} at the peak\n", rank.rank,
               fmt::join(rank.coordinates, ","), rank.stage, in_bytes(rank.weight_bytes),
               in_bytes(rank.peak_bytes));
  }
  if (tail) fmt::print("{}", tail_text(tail->summary));
  fmt::print("a run: {} predicted, no plan below {}{}\n", in_seconds(info.cost_seconds),
             in_seconds(info.lower_bound_seconds), info.proven_optimal ? ", proven optimal" : "");
  fmt::print("communication of a run, over all ranks:\n{}", collectives_table(info.collectives));
}

struct InspectCommand {
  std::filesystem::path what;
  bool json = false;

  void run() const {
    if (std::filesystem::is_directory(what)) {
      const bundle::MetaInfo info = bundle::load_meta_info(what);
      print_bundle(info, bundle::load_tail_info(what, info), json);
    } else {
      print_model(graph::onnx_overview(what), json);
    }
  }
};

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "What is in a model or a bundle");
  sub->add_option("what", command->what, "An ONNX file or a bundle")->required();
  sub->add_flag("--json", command->json, "Print it as JSON");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
