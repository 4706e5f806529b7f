#include "graph/onnx/external_data_writer.h"

#include "base/error.h"

namespace autopar::graph {
void ExternalDataWriter::write(const Tensor& tensor, onnx::TensorProto& proto) {
  const std::uint64_t offset = append_once(tensor);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  proto.clear_external_data();
  const auto add = [&proto](const char* key, std::string value) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", path_.filename().string());
  add("offset", std::to_string(offset));
  add("length", std::to_string(tensor.size_bytes()));
}

std::uint64_t ExternalDataWriter::append_once(const Tensor& tensor) {
  auto& same_start = written_[tensor.data()];
  for (const auto& [other, offset] : same_start)
    if (other->same_view(tensor)) return offset;
  constexpr std::uint64_t page_bytes = 4096;
  if (!file_) file_.emplace(path_);
  file_->pad_to(page_bytes);
  const std::uint64_t offset = file_->position();
  tensor.for_each_run([this](std::span<const std::byte> run) { file_->write(run); });
  same_start.emplace_back(&tensor, offset);
  return offset;
}

WrittenFile ExternalDataWriter::close() { return file_ ? file_->close() : WrittenFile{}; }

WrittenFile save_model(const onnx::ModelProto& model, const std::filesystem::path& path) {
  const std::string serialized = model.SerializeAsString();
  if (serialized.empty())
    fail("cannot write {}: the graph without its weights is larger than protobuf's 2 GiB",
         path.string());
  DigestingFile file(path);
  file.write(std::as_bytes(std::span(serialized)));
  return file.close();
}

}  // namespace autopar::graph
