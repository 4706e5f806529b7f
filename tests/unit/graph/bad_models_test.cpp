#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <sys/stat.h>

#include "graph/onnx/onnx_overview.h"
#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;
using Catch::EndsWith;

namespace {

std::string error_of(const std::filesystem::path& file, const ImportOptions& options = {}) {
  try {
    load_onnx(file, options);
  } catch (const Error& error) {
    std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);  // one line
    return message;
  }
  return "no error";
}

std::string error_of(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  return error_of(folder / "model.onnx", options);
}

std::string error_of_shape(const onnx::ModelProto& model, const ShapeBindings& shapes) {
  return error_of(model, ImportOptions{shapes, {}, {}, false});
}

onnx::ModelProto relu() { return parse_graph(18, "(float[2] x) => (float[2] y) { y = Relu(x) }"); }

/// y = x + w, w of 512 floats as external data.
onnx::ModelProto with_external(const std::string& location, int offset = 0, int length = 2048) {
  onnx::ModelProto model = parse_graph(18, "(float[512] x) => (float[512] y) { y = Add(x, w) }");
  auto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(512);
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::vector<std::pair<std::string, std::string>> entries = {
      {"location", location},
      {"offset", std::to_string(offset)},
      {"length", std::to_string(length)}};
  for (const auto& [key, value] : entries) {
    auto& entry = *w.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model;
}

}  // namespace

TEST_CASE("a file that is absent, a folder or not ONNX is an error that names it") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of(folder / "none.onnx"), Contains("none.onnx") && Contains("No such file"));
  CHECK_THAT(error_of(folder.path()), Contains("directory"));
  for (const char* content : {"", "hello, world", "{\"json\": 1}", "\x89PNG\r\n"}) {
    std::ofstream(folder / "model.onnx") << content;
    CHECK_THAT(error_of(folder / "model.onnx"), Contains("is not an ONNX file"));
    CHECK_THROWS_WITH(onnx_overview(folder / "model.onnx"), Contains("is not an ONNX file"));
  }
}

TEST_CASE("a pipe is refused, not waited for") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of(folder / "pipe"), Contains("pipe: not a regular file"));
}

TEST_CASE("a truncated file is an error wherever it ends") {
  onnx::ModelProto model = parse_graph(18, "(float[512] x) => (float[512] y) { y = Add(x, w) }");
  auto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(512);
  w.set_raw_data(std::string(2048, '\0'));
  const std::string whole = model.SerializeAsString();
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < whole.size(); length += 1 + length / 16) {
    std::ofstream(folder / "model.onnx", std::ios::binary) << whole.substr(0, length);
    INFO("cut to " << length << " of " << whole.size());
    CHECK_THAT(error_of(folder / "model.onnx"), Contains("truncated") || Contains("not an ONNX"));
  }
}

TEST_CASE("bytes changed at random are an error or a model, never a crash") {
  const std::string whole = with_external("w.bin").SerializeAsString() +
                            relu().SerializeAsString();  // merged by protobuf
  const TemporaryFolder folder;
  std::uint32_t random = 1;
  for (int trial = 0; trial < 400; ++trial) {
    std::string damaged = whole;
    for (int change = 0; change < 3; ++change) {
      random = random * 1664525U + 1013904223U;
      damaged[(random >> 8) % damaged.size()] = static_cast<char>(random >> 24);
    }
    std::ofstream(folder / "model.onnx", std::ios::binary) << damaged;
    try {
      load_onnx(folder / "model.onnx", {{}, {}, {}, true});
    } catch (const Error&) {
      // the usual end
    }
  }
}

TEST_CASE("external data must be there, long enough and inside the model's folder") {
  const TemporaryFolder folder;
  const auto file = folder / "model.onnx";
  std::ofstream(folder / "short.bin") << std::string(2000, 'x');
  std::filesystem::create_directory(folder / "inner");
  std::filesystem::create_symlink(folder / "short.bin", folder / "inner/link.bin");

  write_model(with_external("none.bin"), file);
  CHECK_THAT(error_of(file), Contains("'none.bin' of tensor 'w' is missing"));
  CHECK(load_onnx(file, {{}, {}, {}, true}).nodes.size() == 1);
  write_model(with_external("short.bin"), file);
  CHECK_THAT(error_of(file), Contains("'short.bin' is too short") && Contains("2000 bytes"));
  write_model(with_external("short.bin", 5000), file);
  CHECK_THAT(error_of(file), Contains("too short"));
  write_model(with_external("short.bin", 0, 100), file);
  CHECK_THAT(error_of(file), Contains("tensor 'w' has 100 bytes") && Contains("512"));
  for (const std::string& outside : {(folder / "short.bin").string(), std::string("../short.bin"),
                                     std::string("link.bin"), std::string("a/../../short.bin")}) {
    write_model(with_external(outside), folder / "inner/model.onnx");
    CHECK_THAT(error_of(folder / "inner/model.onnx"),
               Contains("'" + outside + "'") && Contains("outside the model's folder"));
  }
  std::ofstream(folder / "secret") << std::string(4000, 'x');
  write_model(with_external(std::string("../secret\0/../x", 15)), folder / "inner/model.onnx");
  CHECK_THAT(error_of(folder / "inner/model.onnx"), Contains("outside the model's folder"));
  onnx::ModelProto no_number = with_external("short.bin");
  no_number.mutable_graph()->mutable_initializer(0)->mutable_external_data(1)->set_value("-1");
  CHECK_THAT(error_of(no_number), Contains("offset '-1'"));
}

TEST_CASE("data of another size than the shape needs is an error that names the tensor") {
  onnx::ModelProto model = parse_graph(18, R"((float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    y = Add(x, w) })");
  model.mutable_graph()->mutable_initializer(0)->add_float_data(3);
  CHECK_THAT(error_of(model), Contains("tensor 'w' has 12 bytes") && Contains("needs 8"));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, -2);
  CHECK_THAT(error_of(model), Contains("impossible shape -2"));
  model.mutable_graph()->mutable_initializer(0)->set_data_type(99);
  CHECK_THAT(error_of(model), Contains("data type 99"));
}

TEST_CASE("a cycle is an error that names nodes on it") {
  CHECK_THAT(error_of(parse_graph(18, R"((float[2] x) => (float[2] y) {
    [first] a = Relu(x)
    [second] b = Add(a, d)
    [third] c = Neg(b)
    [fourth] d = Exp(c)
    [last] y = Relu(d) })")),
             Contains("cycle") && Contains("node 'second' (Add)") && Contains("'third'") &&
                 Contains("'fourth'") && !Contains("'first'") && !Contains("'last'"));
}

TEST_CASE("a value that nothing makes is an error that names it and its reader") {
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { [n] y = Add(x, ghost) }")),
             Contains("node 'n' (Add) reads 'ghost', which no input, initializer or node makes"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] z) { y = Relu(x) }")),
             Contains("nothing makes the graph's output 'z'"));
  onnx::ModelProto no_outputs = relu();
  no_outputs.mutable_graph()->clear_output();
  CHECK_THAT(error_of(no_outputs), Contains("has no outputs"));
}

TEST_CASE("a value made twice is an error that names it") {
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }")),
             Contains("'y' is made more than once"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] x) { x = Relu(x) }")),
             Contains("'x' is made more than once"));
}

TEST_CASE("an unknown operator is an error with its name, domain, opset and node") {
  CHECK_THAT(
      error_of(parse_graph(18, "(float[2] x) => (float[2] y) { [n] y = com.example.Frob(x) }")),
      Contains("node 'n' (com.example::Frob)") && Contains("operator Frob") &&
          Contains("domain 'com.example', opset 1"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { [n] y = Frob(x) }")),
             Contains("operator Frob of domain 'ai.onnx', opset 18"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { y = other.Frob(x) }")),
             Contains("not imported"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { y = Gelu(x) }")),
             Contains("Gelu"));  // came with opset 20
}

TEST_CASE("an opset too new or too old, and nonsense for ir_version, are errors") {
  onnx::ModelProto model = relu();
  model.mutable_opset_import(0)->set_version(99);
  CHECK_THAT(error_of(model), Contains("opset 99 of domain 'ai.onnx'") && Contains("1 to 28"));
  model.mutable_opset_import(0)->set_version(0);
  CHECK_THAT(error_of(model), Contains("opset 0"));
  for (const int version : {0, -1, 2, 1000}) {
    model = relu();
    model.set_ir_version(version);
    CHECK_THAT(error_of(model), Contains("ir_version " + std::to_string(version)));
  }
  model = relu();
  model.clear_opset_import();
  CHECK_THAT(error_of(model), Contains("no opset"));
}

TEST_CASE("an unbound dimension with which no assumption goes is an error that shows the option") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (int64[batch, sequence] input_ids, float[batch, width] x) => (float[A, B] y) {
      to = Constant<value_ints = [5, 7]>() [n] y = Reshape(x, to) })");
  CHECK_THAT(error_of(model),
             Contains("node 'n' (Reshape): data 1x128 cannot be reshaped to 5x7") &&
                 Contains("assumed: 'batch' 1, 'sequence' 128, 'width' 128") &&
                 Contains("--shape input_ids=1x128 --shape x=1x128"));
  CHECK_THAT(error_of_shape(model, {{"x", {3, 4}}}),
             !Contains("assumed") && Contains("3x4 cannot be reshaped to 5x7"));
  onnx::ModelProto unranked = relu();
  unranked.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  CHECK_THAT(error_of(unranked), Contains("input 'x' has no shape") && Contains("--shape x="));
}

TEST_CASE("a symbolic dimension bound to nonsense is an error that says why") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[batch, 4] x, float[batch, 4] z) => (float[batch, 4] y) { y = Add(x, z) })");
  CHECK_THAT(error_of_shape(model, {{"x", {3}}}), Contains("has 1 dimensions") && Contains("2"));
  CHECK_THAT(error_of_shape(model, {{"x", {3, 5}}}), Contains("the model fixes it to 4"));

  CHECK_THAT(error_of_shape(model, {{"x", {-1, 4}}}), Contains("impossible shape"));
  // Two extents of one symbol are the operators' matter.
  CHECK_THAT(error_of_shape(model, {{"x", {2, 4}}, {"z", {3, 4}}}), Contains("do not fit"));
  CHECK_THAT(error_of_shape(model, {{"w", {2, 4}}}),
             Contains("--shape w=2x4 names no input") && Contains("x, z"));
}

TEST_CASE("a name in a shape that is nothing of the model is told with what is near to it") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[batch, sequence] x_in, float[batch, 4] z) => (float[batch, sequence] y) { y = Relu(x_in) })");
  const std::string error =
      error_of_shape(model, {{"sequense", {2}}, {"w*", {2, 4}}, {"batch", {1, 2}}, {"z", {2, 5}}});
  CHECK_THAT(error, Contains("--shape sequense=2, --shape w*=2x4 names no input or symbol") &&
                        Contains("inputs are x_in, z") && Contains("symbols batch, sequence") &&
                        Contains("nearest to 'sequense': sequence") && !Contains("to 'w*'"));
  CHECK_THAT(error, Contains("--shape batch=1x2: 'batch' is a symbol") &&
                        Contains("--shape z=2x5 says 5 for dimension 1"));
}

TEST_CASE("the shape of a tensor that is given for a run is refused without a word of options") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) })");
  const auto refusal = [&](const Shape& shape) {
    ImportOptions how;
    how.shapes = {{"x", shape}};
    how.shapes_are_of_tensors = true;
    return error_of(model, how);
  };
  CHECK_THAT(refusal({2, 5}),
             Contains("input 'x' is 2x5, but the model fixes dimension 1 to 4") && !Contains("--"));
  CHECK_THAT(refusal({2}), Contains("input 'x' is 2, but the model takes 2 dimensions: batchx4") &&
                               !Contains("--"));
}

TEST_CASE("globs that do not fit, or that give one input two shapes, are told of once") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[n, 4] past_0, float[n, 4] past_1, float[n, 4] x) => (float[n, 4] y) { y = Relu(x) })");
  const std::string wrong = error_of_shape(model, {{"past_*", {2, 5}}});
  CHECK_THAT(wrong, Contains("--shape past_*=2x5 says 5") && Contains("'past_0'") &&
                        !Contains("'past_1'"));
  CHECK_THAT(error_of_shape(model, {{"past_*", {2, 4}}, {"*_0", {3, 4}}}),
             Contains("--shape *_0=3x4 and --shape past_*=2x4 both give input 'past_0'") ||
                 Contains("--shape past_*=2x4 and --shape *_0=3x4 both give input 'past_0'"));
}

TEST_CASE("what autopar does not support is an error that names it") {
  onnx::ModelProto sparse = relu();
  sparse.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
  CHECK_THAT(error_of(sparse), Contains("'w' is sparse"));
  CHECK_THAT(error_of(parse_graph(18, R"((float[2] x) => (seq(float[2]) y) {
    y = SequenceConstruct(x) })")),
             Contains("output 'y' is a sequence"));
  CHECK_THAT(error_of(parse_graph(18, "(seq(float[2]) s) => (float[2] y) { y = Relu(s) }")),
             Contains("input 's' is no tensor"));
  CHECK_THAT(error_of(parse_graph(18, "(string[2] s) => (string[2] y) { y = Identity(s) }")),
             Contains("input 's' holds strings"));
  CHECK_THAT(error_of(parse_graph(18, R"((float[2] x, bool c) => (float[2] y) {
    [n] y = If(c) <then_branch = a () => (float[2] t) { t = Relu(x) },
                   else_branch = b () => (float[4] e) { e = Concat<axis = 0>(x, x) }> })")),
             Contains("node 'n' (If): its condition, the input 'c', is not known") &&
                 Contains("float32 2 or float32 4"));
  CHECK_THAT(error_of(parse_graph(18, R"((float[2] x, int64 n, bool c) => (float[A, 2] y) {
    [loop] last, y = Loop(n, c, x) <body = b (int64 i, bool ci, float[2] v)
        => (bool co, float[2] w, float[2] k) { co = Identity(ci) w = Relu(v) k = Neg(w) }> })")),
             Contains("node 'loop' (Loop): its trip count is not known"));
}

TEST_CASE("inputs that do not fit their operator are an error that names the node") {
  CHECK_THAT(error_of(parse_graph(18, R"((float[2, 3] x, float[2, 3] z) => (float[2, 2] y) {
    [n] y = MatMul(x, z) })")),
             Contains("node 'n' (MatMul) has inputs that do not fit together"));
  CHECK_THAT(error_of(parse_graph(18, R"((float[2] x, int64[2] z) => (float[2] y) {
    [n] y = Add(x, z) })")),
             Contains("node 'n' (Add)"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { [n] y = Relu<a = 1>(x) }")),
             Contains("node 'n' (Relu) is not what its operator allows"));
  CHECK_THAT(error_of(parse_graph(18, "(float[2] x) => (float[2] y) { [n] y = Add(x) }")),
             Contains("node 'n' (Add) is not what its operator allows"));
}

TEST_CASE("an error within the body of an operator names the operator's node") {
  const onnx::ModelProto model = parse_model(R"(
    <ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    tested (float[2, 3] a, float[4] b) => (float[2, 3] y) {
      [gelu] y = com.microsoft.BiasGelu(a, b) })");
  CHECK_THAT(error_of(model),
             Contains("(Add)") && Contains("do not fit together") &&
                 EndsWith("(in the body of node 'gelu' (com.microsoft::BiasGelu))"));
}

TEST_CASE("operands that ONNX's own inference lets through are an error that names the node") {
  const auto refused = [](const std::string& text, const std::string& why) {
    CAPTURE(text);
    CHECK_THAT(error_of(parse_graph(18, text)), Contains("node 'n'") && Contains(why));
  };
  refused(R"((float[4, 8] x) => (float[A, B] y) {
    to = Constant<value_ints = [5, 7]>() [n] y = Reshape(x, to) })",
          "4x8 cannot be reshaped to 5x7");
  for (const char* attribute : {"strides = [0, 1]", "dilations = [1, -1]", "group = 0"}) {
    refused(fmt::format(R"((float[1, 3, 8, 8] x, float[3, 3, 3, 3] w) => (float[A, B, C, D] y) {{
      [n] y = Conv<{}>(x, w) }})",
                        attribute),
            "is not positive");
  }
  for (const char* form : {"(x, w)", "<group = 3>(x, w)"}) {
    refused(fmt::format(R"((float[1, 3, 8, 8] x, float[4, 2, 3, 3] w) => (float[A, B, C, D] y) {{
      [n] y = Conv {} }})",
                        form),
            "1x3x8x8 and weights 4x2x3x3");
  }
  refused(R"((float[1, 3, 8, 8] x, float[4, 2, 3, 3] w) => (float[A, B, C, D] y) {
    [n] y = ConvTranspose(x, w) })",
          "1x3x8x8 and weights 4x2x3x3");
  refused(R"((float[4, 8] x) => (float[A, B] y) { [n] y = Einsum<equation = "ij, jk">(x, x) })",
          "'j' of 'ij, jk' is both 8 and 4");
}

TEST_CASE("a tensor that no machine can hold, or of a negative extent, is an error") {
  const auto refused = [](const std::string& text) {
    CAPTURE(text);
    CHECK_THAT(error_of(parse_graph(18, text)),
               Contains("impossible shape") || Contains("negative"));
  };
  refused("(float[4294967296, 4294967296] x) => (float[A, B] y) { y = Relu(x) }");
  refused(
      "(float[4294967296, 1] x, float[1, 4294967296] z) => (float[A, B] y) { y = MatMul(x, z) }");
  refused(R"((float[4, 8] x) => (float[A, B, C] y) {
    to = Constant<value_ints = [4611686018427387904, 4, 8]>() y = Expand(x, to) })");
  refused(R"((int64[1] x) => (int64[A] y) {
    a = Constant<value_int = 0>() b = Constant<value_int = 4611686018427387904>()
    c = Constant<value_int = 1>() r = Range(a, b, c) y = Add(r, x) })");
  refused(R"((float[4, 8] x) => (float[A, B] y) {
    p = Constant<value_ints = [-9, 0, 0, 0]>() y = Pad(x, p) })");
  refused(R"((float[4, 8] x) => (float[A, B] y) {
    n = Constant<value_ints = [-1, 2]>() y = Tile(x, n) })");
  refused(R"((float[1, 3, 2, 2] x, float[4, 3, 5, 5] w) => (float[A, B, C, D] y) {
    y = Conv(x, w) })");
  const onnx::ModelProto symbolic =
      parse_graph(18, "(float[batch, 8] x) => (float[batch, 8] y) { y = Relu(x) }");
  CHECK_THAT(error_of_shape(symbolic, {{"x", {std::int64_t{1} << 62, 8}}}),
             Contains("input 'x'") && Contains("impossible shape") && Contains("--shape"));
}

TEST_CASE("a shape that depends on data is an error that names node and value") {
  CHECK_THAT(error_of(parse_graph(18, R"((float[2, 3] x, int64[2] target) => (float[A, B] y) {
    [n] y = Reshape(x, target) })")),
             Contains("node 'n' (Reshape)") && Contains("output 'y'") &&
                 Contains("values of 'target'") && Contains("--constant"));
}

TEST_CASE("a constant given for an input has to be one of the model's, of its type and shape") {
  const onnx::ModelProto model = parse_graph(18, R"((float[2, 3] x, int64[2] target) =>
      (float[A, B] y) { y = Reshape(x, target) })");
  const auto error_with = [&](const std::string& name, const Tensor& value) {
    ImportOptions options;
    options.constants = {{name, value}};
    return error_of(model, options);
  };
  const std::vector<std::int64_t> target = {3, 2};
  CHECK(error_with("target", Tensor::of_int64({2}, target)) == "no error");
  CHECK_THAT(error_with("other", Tensor::of_int64({2}, target)),
             Contains("--constant other names no input of"));
  CHECK_THAT(error_with("target", Tensor::zeros(DataType::int32, {2})),
             Contains("--constant target") && Contains("int64") && Contains("int32"));
  CHECK_THAT(error_with("target", Tensor::zeros(DataType::int64, {3})), Contains("target=3"));
}
