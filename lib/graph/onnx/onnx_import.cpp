#include "graph/onnx/onnx_import.h"

#include "graph/onnx/import_with_tail.h"
#include "graph/onnx/input_shapes.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/model_importer.h"

namespace autopar::graph {

Graph load_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  return ModelImporter(model, options, OfUnknownShape::refused, Folding::of_small_constants)
      .run()
      .graph;
}

Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  const auto import = [&] {
    return ModelImporter(model, options, OfUnknownShape::left, Folding::of_small_constants).run();
  };
  try {
    return import();
  } catch (const FunctionHidesTail&) {
    model.inline_functions();
    return import();
  }
}

void check_import_options(const std::filesystem::path& file, const ImportOptions& options) {
  const ModelFile model(file, options.weights_may_be_absent);
  bind_inputs(model.model().graph(), options, model.path().string());
}

}  // namespace autopar::graph
