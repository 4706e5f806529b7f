#include "runtime/tail_run.h"

#include <fmt/ranges.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/onnx/onnx_interpreter.h"
#include "graph/onnx/onnx_overview.h"
#include "runtime/data_shaped.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"

namespace autopar::runtime {
namespace {

using graph::Tensor;

bool has_kernel(std::string_view domain, std::string_view op_type) {
  return cpu_kernels().find(domain, op_type) != nullptr;
}

graph::Evaluator evaluator(int threads) {
  return [threads](const graph::Graph& graph) -> std::optional<std::vector<Tensor>> {
    if (auto results = evaluate_data_shaped(graph)) return results;
    const graph::Node& node = graph.nodes.at(0);
    if (!has_kernel(node.domain, node.op_type)) return std::nullopt;
    return run_constants(graph, threads);
  };
}

/// Throws Error where the file does not read and make what meta-info.json says.
void check_ports(const std::filesystem::path& model_file, const graph::TailSummary& summary) {
  const graph::ModelOverview model = graph::onnx_overview(model_file);
  const auto check = [&](const std::vector<graph::ModelOverview::Port>& ports,
                         const std::set<std::string>& told, const char* what) {
    std::set<std::string> names;
    for (const auto& port : ports) names.insert(port.name);
    if (names != told)
      fail("{} has {} {}, but meta-info.json {}; partition the model again", model_file.string(),
           what, fmt::join(names, ", "), fmt::join(told, ", "));
  };
  check(model.inputs, {summary.inputs.begin(), summary.inputs.end()}, "inputs");
  std::set<std::string> made;
  for (const graph::ModelOutput& output : summary.outputs) made.insert(output.name);
  check(model.outputs, made, "outputs");
}

}  // namespace

TailRun load_tail(const std::filesystem::path& model_file, graph::TailSummary summary,
                  int threads) {
  check_ports(model_file, summary);
  const auto interpreter =
      std::make_shared<const graph::OnnxInterpreter>(model_file, evaluator(threads), has_kernel);
  return [interpreter, tail = std::move(summary)](const NamedTensors& inputs,
                                                  const NamedTensors& made) {
    NamedTensors read;
    for (const std::string& name : tail.inputs) {
      const auto found = made.find(name);
      read.emplace(name, found != made.end() ? found->second : inputs.at(name));
    }
    NamedTensors outputs = interpreter->run(std::move(read));
    for (const graph::ModelOutput& output : tail.outputs)
      if (const auto type = outputs.at(output.name).type(); type != output.type)
        fail("output '{}' is {}, but the model says {}: export it again", output.name,
             name_of(type), name_of(output.type));
    for (const std::string& name : tail.model_outputs)
      if (const auto found = made.find(name); found != made.end()) outputs.emplace(*found);
    return outputs;
  };
}

}  // namespace autopar::runtime
