#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bundle/meta_info.h"
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

void print_bundle(const bundle::MetaInfo& info, bool json) {
  if (json) {
    fmt::print("{}\n", bundle::to_json(info).dump(2));
    return;
  }
  std::vector<int> sizes;
  for (const bundle::MeshAxis& axis : info.stages.front().mesh) sizes.push_back(axis.size);
  fmt::print("{} on a mesh of {}, planned for {}\n", info.model, fmt::join(sizes, "x"),
             info.device);
  for (const bundle::PortInfo& port : info.inputs) {
    fmt::print("input {} {} {} {}\n", port.name, name_of(port.type), graph::to_string(port.shape),
               port.spec);
  }
  for (const bundle::PortInfo& port : info.outputs) {
    fmt::print("output {} {} {} {}\n", port.name, name_of(port.type), graph::to_string(port.shape),
               port.spec);
  }
  for (const bundle::RankInfo& rank : info.ranks) {
    fmt::print("rank {} at ({}): {} of weights, {} at the peak\n", rank.rank,
               fmt::join(rank.coordinates, ","), in_bytes(rank.weight_bytes),
               in_bytes(rank.peak_bytes));
  }
  fmt::print("a run: {} predicted, no plan below {}{}\n", in_seconds(info.cost_seconds),
             in_seconds(info.lower_bound_seconds), info.proven_optimal ? ", proven optimal" : "");
  fmt::print("communication of a run, over all ranks:\n{}", collectives_table(info.collectives));
}

struct InspectCommand {
  std::filesystem::path what;
  bool json = false;

  void run() const {
    if (std::filesystem::is_directory(what)) {
      print_bundle(bundle::load_meta_info(what), json);
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
