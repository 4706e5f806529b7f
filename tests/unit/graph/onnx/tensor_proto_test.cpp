#include "graph/onnx/tensor_proto.h"

#include "graph/onnx/onnx_tensor_file.h"
#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

Tensor converted(const onnx::TensorProto& proto) {
  return tensor_from_proto(proto,
                           [](std::string_view, const ExternalData&, DataType, Shape) -> Tensor {
                             throw InternalError("no external data here");
                           });
}

onnx::TensorProto proto_of(DataType type, Shape shape) {
  onnx::TensorProto proto;
  proto.set_name("t");
  proto.set_data_type(static_cast<int>(type));
  for (const auto extent : shape) proto.add_dims(extent);
  return proto;
}

}  // namespace

TEST_CASE("integers of every width are read from int32_data and raw_data alike") {
  for (const DataType type : {DataType::int8, DataType::uint8, DataType::int16, DataType::uint16,
                              DataType::int32, DataType::boolean}) {
    onnx::TensorProto typed = proto_of(type, {3});
    for (const int value : {0, 1, 100}) typed.add_int32_data(value);
    const Tensor tensor = converted(typed);
    INFO(name_of(type));
    CHECK(tensor.to_int64s() == std::vector<std::int64_t>{0, 1, 100});
    CHECK(converted(tensor_to_proto("again", tensor)).to_int64s() == tensor.to_int64s());
  }
}

TEST_CASE("negative numbers keep their sign") {
  onnx::TensorProto proto = proto_of(DataType::int8, {2});
  proto.add_int32_data(-1);
  proto.add_int32_data(-128);
  CHECK(converted(proto).to_int64s() == std::vector<std::int64_t>{-1, -128});
}

TEST_CASE("each type is read from the field that ONNX gives it") {
  onnx::TensorProto f64 = proto_of(DataType::float64, {1});
  f64.add_double_data(0.5);
  CHECK(converted(f64).values<double>()[0] == 0.5);
  onnx::TensorProto u32 = proto_of(DataType::uint32, {1});
  u32.add_uint64_data(4000000000U);
  CHECK(converted(u32).to_int64s() == std::vector<std::int64_t>{4000000000});
  onnx::TensorProto i64 = proto_of(DataType::int64, {});
  i64.add_int64_data(-5);
  CHECK(converted(i64).to_int64s() == std::vector<std::int64_t>{-5});
  onnx::TensorProto half = proto_of(DataType::float16, {1});
  half.add_int32_data(0x3C00);
  CHECK(converted(half).values<std::uint16_t>()[0] == 0x3C00);
  onnx::TensorProto complex = proto_of(DataType::complex64, {1});
  complex.add_float_data(1);
  complex.add_float_data(2);
  CHECK(converted(complex).size_bytes() == 8);
  onnx::TensorProto nibbles = proto_of(DataType::uint4, {3});
  nibbles.add_int32_data(0x21);
  nibbles.add_int32_data(0x03);
  CHECK(converted(nibbles).to_int64s() == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("strings are refused by name") {
  onnx::TensorProto proto = proto_of(DataType::string, {1});
  proto.add_string_data("some text");
  CHECK_THROWS_WITH(converted(proto), Catch::Contains("tensor 't' holds strings"));
}

TEST_CASE("a tensor file is read with its name") {
  const TemporaryFolder folder;
  onnx::TensorProto proto = proto_of(DataType::int64, {2});
  proto.add_int64_data(7);
  proto.add_int64_data(8);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(folder / "input_0.pb", std::ios::binary) << bytes;
  };
  write(proto.SerializeAsString());
  const auto [name, tensor] = load_tensor_proto(folder / "input_0.pb");
  CHECK(name == "t");
  CHECK(tensor.to_int64s() == std::vector<std::int64_t>{7, 8});
  write("no tensor at all");
  CHECK_THROWS_WITH(load_tensor_proto(folder / "input_0.pb"), Catch::Contains("no ONNX tensor"));
  CHECK_THROWS_WITH(load_tensor_proto(folder / "none.pb"), Catch::Contains("none.pb"));
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *proto.add_external_data();
  entry.set_key("location");
  entry.set_value("/etc/passwd");
  write(proto.SerializeAsString());
  CHECK_THROWS_WITH(load_tensor_proto(folder / "input_0.pb"), Catch::Contains("another file"));
}
