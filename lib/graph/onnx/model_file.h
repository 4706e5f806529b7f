#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <utility>

#include "base/mapped_file.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/tensor.h"

namespace autopar::graph {

/// An ONNX file on disk: its structure as a message without weights, and its tensors as views of
/// the mapped file or of the files of external data beside it.
class ModelFile {
 public:
  /// Throws Error where it is no ONNX file, damaged, or of a version that this build cannot read.
  ModelFile(std::filesystem::path file, bool weights_may_be_absent);

  const std::filesystem::path& path() const { return path_; }
  const onnx::ModelProto& model() const { return model_; }
  /// The tensor of a message in model(); throws Error where its data is missing, too short or
  /// outside the model's folder.
  Tensor tensor(const onnx::TensorProto& proto);
  /// Replaces calls of the model's functions by what is in them, where their opsets allow it.
  void inline_functions();
  bool is_inlined() const { return is_inlined_; }
  /// Opset version by domain, ONNX's own domain as "".
  const std::map<std::string, std::int64_t>& opsets() const { return opsets_; }

 private:
  Tensor external_tensor(std::string_view name, const ExternalData& external, DataType type,
                         Shape shape);
  /// Null where the file is absent and may be.
  std::shared_ptr<const MappedFile> open_external(std::string_view name,
                                                  const std::string& location);
  void check_versions();

  std::filesystem::path path_;
  bool weights_may_be_absent_;
  bool is_inlined_ = false;
  std::shared_ptr<const MappedFile> mapped_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_files_;  ///< by location
  /// Copies of small tensors that the file does not align, by where they lie there: one for all.
  std::map<std::pair<const std::byte*, Shape>, Tensor> aligned_copies_;
  onnx::ModelProto model_;
  std::map<std::string, std::int64_t> opsets_;
};

/// Both names of ONNX's own domain, "" and "ai.onnx", as "".
std::string canonical_domain(const std::string& domain);

/// Opset versions by canonical domain.
std::map<std::string, std::int64_t> opsets_of(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

}  // namespace autopar::graph
