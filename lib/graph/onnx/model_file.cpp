#include "graph/onnx/model_file.h"

#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>

#include "graph/onnx/protobuf_log.h"
#include "graph/onnx/weight_stripping.h"

namespace autopar::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t oldest_opset = 1;
constexpr std::int64_t oldest_ir_version = 3;
/// Smaller tensors are copied where the file does not align them; larger ones stay views.
constexpr std::int64_t largest_aligning_copy = 16 * 1024;

/// Whether `inner`, with all links resolved, lies in or under the folder.
bool is_inside(const fs::path& inner, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), inner.begin(), inner.end());
  return end == folder.end();
}

}  // namespace

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::map<std::string, std::int64_t> opsets_of(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, std::int64_t> result;
  for (const auto& import : imports) result[canonical_domain(import.domain())] = import.version();
  return result;
}

ModelFile::ModelFile(fs::path file, bool weights_may_be_absent)
    : path_(std::move(file)),
      weights_may_be_absent_(weights_may_be_absent),
      mapped_(MappedFile::open(path_)) {
  keep_protobuf_silent();
  if (!model_.ParseFromString(strip_weights(mapped_->bytes(), path_))) {
    check_nesting(mapped_->bytes(), path_);
    fail(
        "{} is damaged, or its types are nested more than 100 deep: its structure is no ONNX "
        "model; copy or export it again",
        path_.string());
  }
  if (!model_.has_graph() || model_.opset_import().empty())
    fail("{} is not an ONNX model, or truncated: it has no {}", path_.string(),
         model_.has_graph() ? "opset" : "graph");
  opsets_ = opsets_of(model_.opset_import());
  check_versions();
}

void ModelFile::check_versions() {
  const std::int64_t ir_version = model_.ir_version();
  if (ir_version < oldest_ir_version || ir_version > onnx::Version::IR_VERSION)
    fail("{} has ir_version {}, but this build reads {} to {}: export it with another version",
         path_.string(), ir_version, oldest_ir_version,
         static_cast<std::int64_t>(onnx::Version::IR_VERSION));
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (const auto& [domain, version] : opsets_) {
    const auto range = known.find(domain);
    if (range == known.end()) continue;  // an unknown operator is reported where it is used
    const std::int64_t oldest = domain.empty() ? oldest_opset : range->second.first;
    if (version < oldest || version > range->second.second)
      fail(
          "{} uses opset {} of domain '{}', but this build knows {} to {}: export it with one of "
          "these, or convert it with onnx.version_converter",
          path_.string(), version, domain.empty() ? "ai.onnx" : domain, oldest,
          range->second.second);
  }
}

void ModelFile::inline_functions() {
  try {
    onnx::inliner::InlineLocalFunctions(model_);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: its functions cannot be put in the place of their calls: {}", path_.string(),
         error.what());
  }
  is_inlined_ = true;
}

Tensor ModelFile::tensor(const onnx::TensorProto& proto) {
  try {
    return tensor_from_proto(proto, [this](std::string_view name, const ExternalData& external,
                                           DataType type, Shape shape) {
      return external_tensor(name, external, type, std::move(shape));
    });
  } catch (const Error& error) {
    fail("{}: {}", path_.string(), error.what());
  }
}

Tensor ModelFile::external_tensor(std::string_view name, const ExternalData& external,
                                  DataType type, Shape shape) {
  const bool embedded = external.location == this_file_location;
  const auto file = embedded ? mapped_ : open_external(name, external.location);
  if (!file) return Tensor::absent(type, std::move(shape));
  const std::int64_t needed = bytes_of(type, num_elements(shape));
  if (external.length >= 0 && external.length != needed)
    fail("tensor '{}' has {} bytes of data where its shape {} needs {}: the file is damaged", name,
         external.length, to_string(shape), needed);
  const auto available = static_cast<std::int64_t>(file->bytes().size());
  if (external.offset > available || needed > available - external.offset)
    fail(
        "the external data file '{}' is too short: it has {} bytes, tensor '{}' needs {} from byte "
        "{}; is its copy complete?",
        external.location, available, name, needed, external.offset);
  Tensor view =
      Tensor::mapped(type, std::move(shape), file->bytes().data() + external.offset, file);
  if (view.is_aligned() || needed > largest_aligning_copy) return view;
  Tensor& copy = aligned_copies_[{view.data(), view.shape()}];
  if (copy.type() != type) copy = view.contiguous_copy();
  return copy;
}

std::shared_ptr<const MappedFile> ModelFile::open_external(std::string_view name,
                                                           const std::string& location) {
  if (const auto found = external_files_.find(location); found != external_files_.end())
    return found->second;
  const fs::path folder = fs::canonical(fs::absolute(path_).parent_path());
  const fs::path relative(location.c_str());  // a name ends at a zero byte for the system, too
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(folder / relative, error);
  if (error)
    fail("the external data file '{:.200}' of tensor '{}' cannot be there: {}", location, name,
         error.message());
  if (relative.is_absolute() || !is_inside(resolved, folder))
    fail(
        "tensor '{}' has its data in '{}', outside the model's folder, where autopar does not "
        "read: put the file beside the model",
        name, relative.string());
  auto& file = external_files_[location];
  if (fs::exists(resolved, error)) {
    file = MappedFile::open(resolved);
  } else if (!weights_may_be_absent_) {
    fail("the external data file '{}' of tensor '{}' is missing: put it beside the model", location,
         name);
  }
  return file;
}

}  // namespace autopar::graph
