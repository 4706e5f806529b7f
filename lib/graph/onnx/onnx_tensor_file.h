#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "graph/tensor.h"

namespace autopar::graph {

/// Reads a serialized ONNX TensorProto (.pb), as ONNX's test data sets hold; its name may be empty.
std::pair<std::string, Tensor> load_tensor_proto(const std::filesystem::path& file);

}  // namespace autopar::graph
