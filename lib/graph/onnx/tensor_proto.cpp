#include "graph/onnx/tensor_proto.h"

#include <charconv>
#include <cstring>

#include "graph/onnx/operator_advice.h"

namespace autopar::graph {
namespace {

/// Checked before memory is asked for: a damaged shape may want any amount.
void check_size(std::size_t bytes, DataType type, const Shape& shape, std::string_view name) {
  const auto needed = static_cast<std::size_t>(bytes_of(type, num_elements(shape)));
  if (bytes != needed)
    fail("tensor '{}' has {} bytes of data where its shape {} needs {}: the file is damaged", name,
         bytes, to_string(shape), needed);
}

/// Copies a repeated field whose elements are wider than, or as wide as, the tensor's: ONNX stores
/// all types of up to 32 bits in int32_data, one element each (of 4- and 2-bit types: a byte each).
template <typename Field>
Tensor tensor_of_field(const Field& field, DataType type, Shape shape, std::string_view name) {
  const std::size_t width =
      std::min(sizeof(field.Get(0)), static_cast<std::size_t>(std::max(bits_of(type) / 8, 1)));
  check_size(width * static_cast<std::size_t>(field.size()), type, shape, name);
  Tensor result = Tensor::zeros(type, std::move(shape));
  std::byte* position = result.mutable_bytes().data();
  for (const auto& element : field) {
    std::memcpy(position, &element, width);  // little-endian: the low bytes come first
    position += width;
  }
  return result;
}

Tensor tensor_of_raw(const std::string& raw, DataType type, Shape shape, std::string_view name) {
  check_size(raw.size(), type, shape, name);
  Tensor result = Tensor::zeros(type, std::move(shape));
  if (!raw.empty()) std::memcpy(result.mutable_bytes().data(), raw.data(), raw.size());
  return result;
}

std::int64_t parse_number(const std::string& text, std::string_view key, std::string_view name) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    fail("tensor '{}' has external data with {} '{}', which is no number", name, key, text);
  return value;
}

ExternalData external_data_of(const onnx::TensorProto& proto) {
  ExternalData external;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() == "offset")
      external.offset = parse_number(entry.value(), "offset", proto.name());
    if (entry.key() == "length")
      external.length = parse_number(entry.value(), "length", proto.name());
  }
  if (external.location.empty())
    fail("tensor '{}' has external data without a location: the file is damaged", proto.name());
  return external;
}

using Visit = std::function<void(onnx::TensorProto&)>;

void visit_graph(onnx::GraphProto& graph, const Visit& visit);

void visit_node(onnx::NodeProto& node, const Visit& visit) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) visit(*attribute.mutable_t());
    for (auto& tensor : *attribute.mutable_tensors()) visit(tensor);
    if (attribute.has_g()) visit_graph(*attribute.mutable_g(), visit);
    for (auto& graph : *attribute.mutable_graphs()) visit_graph(graph, visit);
  }
}

void visit_graph(onnx::GraphProto& graph, const Visit& visit) {
  for (auto& initializer : *graph.mutable_initializer()) visit(initializer);
  for (auto& node : *graph.mutable_node()) visit_node(node, visit);
}

Shape shape_of(const onnx::TensorProto& proto) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  if (!is_possible(shape))
    fail("tensor '{}' has the impossible shape {}", proto.name(), to_string(shape));
  return shape;
}

}  // namespace

DataType data_type_from_proto(int type, std::string_view tensor_name) {
  if (type == 0 || !is_data_type(type))
    fail("tensor '{}' has data type {}, which this version does not know", tensor_name, type);
  return static_cast<DataType>(type);
}

Tensor tensor_from_proto(const onnx::TensorProto& proto, const ExternalDataReader& read_external) {
  const std::string& name = proto.name();
  const DataType type = data_type_from_proto(proto.data_type(), name);
  if (type == DataType::string)
    fail("tensor '{}' holds strings, which are not supported: {}", name, advice_about_strings);
  Shape shape = shape_of(proto);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return read_external(name, external_data_of(proto), type, std::move(shape));
  if (proto.has_raw_data()) return tensor_of_raw(proto.raw_data(), type, std::move(shape), name);
  switch (type) {
    case DataType::float32:
    case DataType::complex64:
      return tensor_of_field(proto.float_data(), type, std::move(shape), name);
    case DataType::float64:
    case DataType::complex128:
      return tensor_of_field(proto.double_data(), type, std::move(shape), name);
    case DataType::int64:
      return tensor_of_field(proto.int64_data(), type, std::move(shape), name);
    case DataType::uint32:
    case DataType::uint64:
      return tensor_of_field(proto.uint64_data(), type, std::move(shape), name);
    default:
      return tensor_of_field(proto.int32_data(), type, std::move(shape), name);
  }
}

onnx::TensorProto tensor_to_proto(std::string name, const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(std::move(name));
  proto.set_data_type(static_cast<int>(tensor.type()));
  for (const std::int64_t extent : tensor.shape()) proto.add_dims(extent);
  std::string& raw = *proto.mutable_raw_data();
  raw.reserve(static_cast<std::size_t>(tensor.size_bytes()));
  tensor.for_each_run([&raw](std::span<const std::byte> run) {
    raw.append(reinterpret_cast<const char*>(run.data()), run.size());
  });
  return proto;
}

void for_each_tensor(onnx::ModelProto& model, const Visit& visit) {
  visit_graph(*model.mutable_graph(), visit);
  for (auto& function : *model.mutable_functions())
    for (auto& node : *function.mutable_node()) visit_node(node, visit);
}

}  // namespace autopar::graph
