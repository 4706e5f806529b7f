#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "graph/graph.h"
#include "graph/onnx/onnx_export.h"

namespace autopar::graph {

/// Writes a model without its weights: the ONNX file as it is, but that the payload of a tensor
/// that each of `graphs`, imported from it, has among its constants (as views, whole or in parts)
/// is left out. All other payloads stay, so that an import with absent weights folds whatever an
/// import of the model itself would. The inputs that `constants` names have these values for good.
/// `data_file` is written where tensors of at least 1 KiB stay.
WrittenModel save_structure(const std::filesystem::path& model,
                            const std::map<std::string, Tensor>& constants,
                            std::span<const Graph* const> graphs,
                            const std::filesystem::path& structure_file,
                            const std::filesystem::path& data_file);

}  // namespace autopar::graph
