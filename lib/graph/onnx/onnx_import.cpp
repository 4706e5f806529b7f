#include "graph/onnx/onnx_import.h"

#include "graph/onnx/import/import_model.h"
#include "graph/onnx/import/input_shapes.h"
#include "graph/onnx/import_with_tail.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

Graph load_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  return import_model(model, options, OfUnknownShape::refused).graph;
}

Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  try {
    return import_model(model, options, OfUnknownShape::left);
  } catch (const FunctionHidesTail&) {
    model.inline_functions();
    return import_model(model, options, OfUnknownShape::left);
  }
}

void check_import_options(const std::filesystem::path& file, const ImportOptions& options) {
  const ModelFile model(file, options.weights_may_be_absent);
  bind_inputs(model.model().graph(), options, model.path().string());
}

}  // namespace autopar::graph
