#include "graph/onnx/weight_stripping.h"

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

namespace {

onnx::TensorProto large(const std::string& name, int kind) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.add_dims(512);
  proto.set_data_type(kind == 2 ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
  std::string raw;
  for (int i = 0; i < 512; ++i) {
    const auto f = static_cast<float>(i);
    if (kind == 0) raw.append(reinterpret_cast<const char*>(&f), sizeof f);
    if (kind == 1) proto.add_float_data(f);
    if (kind == 2) proto.add_double_data(f);
  }
  if (kind == 0) proto.set_raw_data(raw);
  return proto;
}

onnx::ModelProto stripped(const onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  onnx::ModelProto result;
  REQUIRE(result.ParseFromString(strip_weights(std::as_bytes(std::span(bytes)), "model.onnx")));
  return result;
}

}  // namespace

TEST_CASE("payloads become references into the file, wherever the tensor stands") {
  onnx::ModelProto model = parse_model(R"(
    <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    agraph (float[512] x, bool c) => (float[512] y) {
      a = Constant<value = float[1] {0}>()
      b = If(c) <then_branch = t () => (float[512] p) { p = Identity(w) },
                 else_branch = e () => (float[512] q) { q = Identity(x) }>
      y = local.f(b)
    }
    <domain: "local", opset_import: ["" : 18]>
    f (u) => (v) { k = Constant<value = float[1] {0}>() v = Add(u, k) }
  )");
  auto& graph = *model.mutable_graph();
  *graph.add_initializer() = large("raw", 0);
  *graph.add_initializer() = large("floats", 1);
  *graph.add_initializer() = large("doubles", 2);
  *graph.mutable_node(0)->mutable_attribute(0)->mutable_t() = large("constant", 0);
  *graph.mutable_node(1)->mutable_attribute(0)->mutable_g()->add_initializer() = large("branch", 1);
  *model.mutable_functions(0)->mutable_node(0)->mutable_attribute(0)->mutable_t() =
      large("function", 2);
  const std::string bytes = model.SerializeAsString();
  const onnx::ModelProto light = stripped(model);
  CHECK(light.ByteSizeLong() < 2048);
  const std::vector<onnx::TensorProto> tensors = {
      light.graph().initializer(0),
      light.graph().initializer(1),
      light.graph().initializer(2),
      light.graph().node(0).attribute(0).t(),
      light.graph().node(1).attribute(0).g().initializer(0),
      light.functions(0).node(0).attribute(0).t()};
  const std::vector<std::string> names = {"raw",      "floats", "doubles",
                                          "constant", "branch", "function"};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    INFO(names[i]);
    const onnx::TensorProto& tensor = tensors[i];
    CHECK(tensor.name() == names[i]);
    CHECK(tensor.dims(0) == 512);
    CHECK(tensor.data_location() == onnx::TensorProto::EXTERNAL);
    REQUIRE(tensor.external_data_size() == 3);
    CHECK(tensor.external_data(0).value() == this_file_location);
    const char* data = bytes.data() + std::stoull(tensor.external_data(1).value());
    const std::size_t width = tensor.data_type() == onnx::TensorProto::DOUBLE ? 8 : 4;
    CHECK(std::stoull(tensor.external_data(2).value()) == 512 * width);
    for (int element = 0; element < 512; ++element) {
      float f = 0;
      double d = 0;
      std::memcpy(width == 4 ? static_cast<void*>(&f) : &d,
                  data + static_cast<std::size_t>(element) * width, width);
      REQUIRE((width == 4 ? static_cast<double>(f) : d) == element);
    }
  }
}

TEST_CASE("small payloads, varint-coded ones and external ones stay as they are") {
  onnx::ModelProto model = parse_graph(18, "(float[2] x) => (float[2] y) { y = Relu(x) }");
  auto& integers = *model.mutable_graph()->add_initializer();
  integers.set_name("integers");
  integers.set_data_type(onnx::TensorProto::INT64);
  integers.add_dims(2000);
  for (int i = 0; i < 2000; ++i) integers.add_int64_data(i - 1000);
  auto& mistyped = *model.mutable_graph()->add_initializer();
  mistyped = large("mistyped", 1);
  mistyped.set_data_type(onnx::TensorProto::FLOAT16);
  auto& outside = *model.mutable_graph()->add_initializer();
  outside = large("outside", 0);
  outside.set_data_location(onnx::TensorProto::EXTERNAL);
  CHECK(stripped(model).SerializeAsString() == model.SerializeAsString());
}

TEST_CASE("embedded weights load as views of the file, with the values they had") {
  onnx::ModelProto model = parse_graph(18, R"(
    (float[512] x) => (float[512] y, double[512] z, int64[2000] n) {
      y = Add(x, raw)
      z = Identity(doubles)
      n = Identity(integers)
    })");
  *model.mutable_graph()->add_initializer() = large("raw", 0);
  *model.mutable_graph()->add_initializer() = large("doubles", 2);
  auto& integers = *model.mutable_graph()->add_initializer();
  integers.set_name("integers");
  integers.set_data_type(onnx::TensorProto::INT64);
  integers.add_dims(2000);
  for (int i = 0; i < 2000; ++i) integers.add_int64_data(i - 1000);
  const Graph graph = import(model);
  for (const Value& value : graph.values) {
    if (!value.constant) continue;
    const Tensor copy = value.constant->contiguous_copy();
    if (value.type == DataType::float32) CHECK(copy.values<float>()[511] == 511.0F);
    if (value.type == DataType::float64) CHECK(copy.values<double>()[511] == 511.0);
    if (value.type == DataType::int64) CHECK(copy.values<std::int64_t>()[1999] == 999);
  }
}

TEST_CASE("graphs nested deeper than protobuf parses are named by the node that holds them") {
  const auto nested = [](int depth) {
    onnx::GraphProto graph;
    graph.set_name("nested");
    graph.add_output()->set_name("y");
    graph.add_node()->set_op_type("Relu");
    for (int level = 1; level <= depth; ++level) {
      onnx::GraphProto outer;
      outer.set_name("nested");
      onnx::NodeProto& node = *outer.add_node();
      node.set_name("level " + std::to_string(depth - level));
      node.set_op_type("If");
      node.add_attribute()->mutable_g()->Swap(&graph);
      graph.Swap(&outer);
    }
    onnx::ModelProto model;
    model.set_ir_version(9);
    model.add_opset_import()->set_version(18);
    model.mutable_graph()->Swap(&graph);
    return model;
  };
  const TemporaryFolder folder;
  const auto error_of = [&](int depth) {
    write_model(nested(depth), folder / "model.onnx");
    try {
      load_onnx(folder / "model.onnx", {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(error_of(20).find("nested too deep") == std::string::npos);
  for (const int depth : {33, 60, 2000}) {
    CAPTURE(depth);
    CHECK_THAT(error_of(depth), Contains("node 'level ") &&
                                    Contains("' (If) holds graphs that are nested too deep"));
  }
}
