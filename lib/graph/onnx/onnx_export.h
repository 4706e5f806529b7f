#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/file_digest.h"
#include "graph/graph.h"
#include "graph/onnx/device_annotations.h"

namespace autopar::graph {

struct WrittenModel {
  WrittenFile model;
  WrittenFile data;  ///< no bytes and no file where no constant was large enough
};

/// Writes `model_file` and beside it `data_file`, which holds every constant of at least 1 KiB as
/// ONNX external data, 4 KiB aligned; smaller ones are embedded. Streams: memory does not grow
/// with the weights. Throws Error (a full disk, say) and leaves removal of the files to the caller.
WrittenModel save_onnx(const Graph& graph, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file);

/// The same with ONNX's multi-device annotations.
WrittenModel save_annotated(const Graph& graph, const DeviceAnnotations& annotations,
                            const std::filesystem::path& model_file,
                            const std::filesystem::path& data_file);

/// The same for several graphs over one data file: what is one view is written once.
struct WrittenModels {
  std::vector<WrittenFile> models;  ///< by graph
  WrittenFile data;
};
WrittenModels save_onnx(std::span<const Graph> graphs,
                        std::span<const std::filesystem::path> model_files,
                        const std::filesystem::path& data_file);

}  // namespace autopar::graph
