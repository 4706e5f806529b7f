#pragma once

#include <onnx/onnx_pb.h>

#include "graph/tensor.h"

namespace autopar::graph {

/// Data kept outside the protobuf message, as TensorProto.external_data tells it.
struct ExternalData {
  std::string location;
  std::int64_t offset = 0;
  std::int64_t length = -1;  ///< -1 where the message does not say
};

/// Turns a reference to external data into a tensor of the given type and shape.
using ExternalDataReader =
    std::function<Tensor(std::string_view name, const ExternalData&, DataType, Shape)>;

/// The tensor that a message holds, in memory of its own unless external. Throws Error that names
/// the tensor where data is missing, of another size than the shape, or strings.
Tensor tensor_from_proto(const onnx::TensorProto& proto, const ExternalDataReader& read_external);

/// The message for a tensor with data, embedded as raw_data.
onnx::TensorProto tensor_to_proto(std::string name, const Tensor& tensor);

/// Type and dims without data; throws Error for a type this version does not know.
DataType data_type_from_proto(int type, std::string_view tensor_name);

/// Calls `visit` with each tensor of the model: initializers, then those among the attributes of
/// nodes, nested graphs and functions included.
void for_each_tensor(onnx::ModelProto& model, const std::function<void(onnx::TensorProto&)>& visit);

}  // namespace autopar::graph
