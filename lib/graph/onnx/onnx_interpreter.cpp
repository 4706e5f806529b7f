#include "graph/onnx/onnx_interpreter.h"

#include "graph/onnx/import/import_model.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

OnnxInterpreter::OnnxInterpreter(const std::filesystem::path& file, Evaluator evaluate,
                                 IsNative is_native)
    : evaluate_(std::move(evaluate)), is_native_(std::move(is_native)) {
  register_schemas();
  file_ = std::make_unique<ModelFile>(file, /*weights_may_be_absent=*/false);
}
OnnxInterpreter::~OnnxInterpreter() = default;

std::map<std::string, Tensor> OnnxInterpreter::run(std::map<std::string, Tensor> inputs) const {
  ImportOptions options;
  options.evaluate = evaluate_;
  options.is_native = is_native_;
  options.constants = std::move(inputs);
  return interpret_model(*file_, options);
}

}  // namespace autopar::graph
