#pragma once

#include "graph/onnx/model_file.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// The model's outputs by name, where `options` give all of its inputs as constants.
std::map<std::string, Tensor> interpret_model(ModelFile& file, const ImportOptions& options);

/// Registers the operators that ONNX's library does not know.
void register_schemas();

}  // namespace autopar::graph
