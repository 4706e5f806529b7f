#include "planner/token_count.h"

#include <algorithm>
#include <array>
#include <string>

#include "graph/onnx/onnx_overview.h"

namespace autopar::planner {

namespace {

constexpr std::string_view ids_name = "input_ids";

/// Words of symbols for rows that a run does not read: of caches, or of both.
constexpr std::array other_rows = {"past", "total", "all", "cache", "kv", "encoder"};

bool is_sequence(const std::string& symbol) {
  return symbol.find("seq") != std::string::npos &&
         std::ranges::none_of(
             other_rows, [&](const char* word) { return symbol.find(word) != std::string::npos; });
}

const graph::Value* find_input(const graph::Graph& graph, const std::string& name) {
  for (const graph::ValueId id : graph.inputs)
    if (graph.value(id).name == name) return &graph.value(id);
  return nullptr;
}

std::optional<std::int64_t> tokens_of_ids(const graph::Graph& graph) {
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& input = graph.value(id);
    if (input.shape.size() == 2 && input.name.ends_with(ids_name))
      return graph::num_elements(input.shape);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> tokens_of_run(const LoadedModel& model, std::size_t profile) {
  const graph::Graph& graph = model.profiles[profile].graph;
  if (const auto tokens = tokens_of_ids(graph)) return tokens;
  for (const auto& port : graph::onnx_overview(model.options.file).inputs) {
    const graph::Value* input = find_input(graph, port.name);
    if (!input || input->shape.size() != port.dims.size()) continue;
    for (std::size_t dim = 1; dim < port.dims.size(); ++dim)
      if (is_sequence(port.dims[dim])) return input->shape[0] * input->shape[dim];
  }
  return std::nullopt;
}

}  // namespace autopar::planner
