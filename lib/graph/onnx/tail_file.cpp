#include "graph/onnx/tail_file.h"

#include <onnx/onnx_pb.h>

#include "graph/onnx/external_data_writer.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {

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
  ExternalDataWriter data(data_file);
  for_each_tensor(model, [&](onnx::TensorProto& proto) {
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor& tensor = tail.tensors.at(std::stoul(proto.external_data(0).value()));
    if (!tensor.has_data())
      fail("the data of weight '{}' is absent, so it cannot be written", proto.name());
    data.write(tensor, proto);
  });
  return {.model = save_model(model, model_file), .data = data.close()};
}

}  // namespace autopar::graph
