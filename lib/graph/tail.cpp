#include "graph/tail.h"

#include <onnx/onnx_pb.h>

#include <string>

#include "graph/onnx/external_data_writer.h"

namespace autopar::graph {
namespace {

/// Writes the large tensors of a tail's message and lets it refer to their file.
class TensorWriter {
 public:
  TensorWriter(const Tail& tail, const std::filesystem::path& file) : tail_(tail), data_(file) {}

  void write(onnx::GraphProto& graph) {
    for (auto& initializer : *graph.mutable_initializer()) write(initializer);
    for (auto& node : *graph.mutable_node()) write(node);
  }
  void write(onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) write(*attribute.mutable_t());
      for (auto& tensor : *attribute.mutable_tensors()) write(tensor);
      if (attribute.has_g()) write(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) write(graph);
    }
  }
  WrittenFile close() { return data_.close(); }

 private:
  void write(onnx::TensorProto& proto) {
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor& tensor = tail_.tensors.at(std::stoul(proto.external_data(0).value()));
    if (!tensor.has_data())
      fail("the data of weight '{}' is absent, so it cannot be written", proto.name());
    data_.write(tensor, proto);
  }

  const Tail& tail_;
  ExternalDataWriter data_;
};

}  // namespace

std::string dims_text(const ModelOutput& output) {
  if (!output.dims) return "of any shape";
  std::string text;
  for (const auto& extent : *output.dims)
    text += (text.empty() ? "" : "x") + (extent ? std::to_string(*extent) : "?");
  return text.empty() ? "scalar" : text;
}

WrittenModel save_tail(const Tail& tail, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file) {
  onnx::ModelProto model;
  require(model.ParseFromString(tail.model), "a tail's message is whole");
  TensorWriter writer(tail, data_file);
  writer.write(*model.mutable_graph());
  for (auto& function : *model.mutable_functions())
    for (auto& node : *function.mutable_node()) writer.write(node);
  return {.model = save_model(model, model_file), .data = writer.close()};
}

}  // namespace autopar::graph
