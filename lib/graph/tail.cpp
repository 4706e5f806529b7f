#include "graph/tail.h"

namespace autopar::graph {

std::string dims_text(const ModelOutput& output) {
  if (!output.dims) return "of any shape";
  std::string text;
  for (const auto& extent : *output.dims)
    text += (text.empty() ? "" : "x") + (extent ? std::to_string(*extent) : "?");
  return text.empty() ? "scalar" : text;
}

}  // namespace autopar::graph
