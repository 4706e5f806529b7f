#include "graph/onnx/unknown_shape.h"

namespace autopar::graph {

void fail_without_shape(const std::string& node, const std::string& output,
                        const std::vector<const Value*>& inputs) {
  std::string suspects;
  for (const Value* input : inputs) {
    if (input == nullptr || input->constant) continue;
    if (input->type == DataType::int64 || input->type == DataType::int32)
      suspects += (suspects.empty() ? "" : "', '") + input->name;
  }
  throw UnknownShape(fmt::format(
      "{}: the shape of its output '{}' is not known before the run, but autopar needs "
      "static shapes{}",
      node, output,
      suspects.empty() ? ""
                       : fmt::format("; it depends on the values of '{}': give a model input's "
                                     "with --constant",
                                     suspects)));
}

}  // namespace autopar::graph
