#include "evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "graph/onnx/onnx_export.h"
#include "graph/onnx/onnx_import.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"

namespace autopar::rule_check {
namespace {

bool is_native(std::string_view domain, std::string_view op_type) {
  return runtime::cpu_kernels().find(domain, op_type) != nullptr;
}

/// The graph as the importer makes it of the same graph in a file.
graph::Graph inlined(const graph::Graph& graph) {
  static const TemporaryFolder folder;
  const auto file = folder / "node.onnx";
  graph::save_onnx(graph, file, folder / "node.data");
  return graph::load_onnx(file, {.shapes = {},
                                 .evaluate = runtime::evaluate_constants,
                                 .is_native = is_native,
                                 .weights_may_be_absent = false});
}

}  // namespace

std::optional<std::vector<graph::Tensor>> evaluate(const graph::Graph& graph) {
  const bool all_native = std::ranges::all_of(
      graph.nodes, [](const graph::Node& node) { return is_native(node.domain, node.op_type); });
  try {
    if (all_native) return runtime::evaluate_constants(graph);
    const graph::Graph body = inlined(graph);
    auto results = runtime::evaluate_constants(body);
    if (!results) return std::nullopt;
    for (std::size_t o = 0; o < results->size(); ++o) {
      if ((*results)[o].shape() != graph.value(graph.outputs[o]).shape) return std::nullopt;
    }
    return results;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {  // oneDNN's, too
    return std::nullopt;
  }
}

}  // namespace autopar::rule_check
