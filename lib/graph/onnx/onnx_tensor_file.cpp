#include "graph/onnx/onnx_tensor_file.h"

#include <fstream>

#include "base/read_file.h"
#include "graph/onnx/protobuf_log.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {

std::pair<std::string, Tensor> load_tensor_proto(const std::filesystem::path& file) {
  check_regular_file(file);
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("cannot read {}: no such file, or no permission", file.string());
  onnx::TensorProto proto;
  keep_protobuf_silent();
  if (!proto.ParseFromIstream(&in) || proto.data_type() == 0)
    fail("{} is no ONNX tensor (.pb), or it is truncated", file.string());
  const auto refuse_external = [&](std::string_view, const ExternalData&, DataType,
                                   const Shape&) -> Tensor {
    fail("it keeps its data in another file, which a tensor file may not");
  };
  try {
    return {proto.name(), tensor_from_proto(proto, refuse_external)};
  } catch (const Error& error) {
    fail("{}: {}", file.string(), error.what());
  }
}

}  // namespace autopar::graph
