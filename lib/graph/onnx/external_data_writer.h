#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <unordered_map>

#include "base/file_digest.h"
#include "graph/tensor.h"

namespace autopar::graph {

/// Smaller tensors stay in the model's file.
inline constexpr std::int64_t smallest_external_bytes = 1024;

/// The file beside a model that holds its large tensors, 4 KiB aligned.
class ExternalDataWriter {
 public:
  explicit ExternalDataWriter(std::filesystem::path file) : path_(std::move(file)) {}

  /// Writes the tensor, unless one with the same view was written, and lets the message refer to
  /// it. The tensor must outlive this.
  void write(const Tensor& tensor, onnx::TensorProto& proto);
  /// No bytes, and no file, where nothing was written.
  WrittenFile close();

 private:
  std::uint64_t append_once(const Tensor& tensor);

  std::filesystem::path path_;
  std::optional<DigestingFile> file_;
  /// Offsets of what was written, by where its bytes start in memory.
  std::unordered_map<const std::byte*, std::vector<std::pair<const Tensor*, std::uint64_t>>>
      written_;
};

/// Writes a serialized model; throws Error where protobuf cannot.
WrittenFile save_model(const onnx::ModelProto& model, const std::filesystem::path& file);

}  // namespace autopar::graph
