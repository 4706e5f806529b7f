#include "graph/onnx/onnx_export.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <numeric>

#include "base/file_digest.h"
#include "base/mapped_file.h"
#include "graph/onnx/onnx_overview.h"
#include "unit/graph/models.h"
#include "unit/graph/onnx_registry.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::of_float(shape, values);
}

/// While it lives, this process's files cannot grow beyond so many bytes.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  using Handler = void (*)(int);
  Handler handler_;
  rlimit before_{};
};

/// y = Relu(x W + W' + c), W and W' tied, c small; W is 32 x 32.
Graph sample() {
  Graph graph;
  graph.name = "sample";
  graph.opsets = {{"", 18}};
  const auto value = [&](const char* name) {
    return graph.add_value({name, DataType::float32, {32, 32}, {}});
  };
  const ValueId x = value("x");
  const ValueId product = value("product");
  const ValueId sum = value("sum");
  const ValueId shifted = value("shifted");
  const ValueId y = value("y");
  const ValueId weight = graph.add_constant("weight", counting({32, 32}));
  const ValueId tied = graph.add_constant("tied", *graph.value(weight).constant);
  const ValueId small = graph.add_constant("small", counting({32}));
  graph.nodes = {{"matmul", "MatMul", "", {x, weight}, {product}, {}},
                 {"add", "Add", "", {product, tied}, {sum}, {}},
                 {"shift", "Add", "", {sum, small}, {shifted}, {}},
                 {"leaky", "LeakyRelu", "", {shifted}, {y}, {{"alpha", 0.5F}}}};
  graph.inputs = {x};
  graph.outputs = {y};
  check_invariants(graph);
  return graph;
}

void check_with_onnx(const std::filesystem::path& file) {
  tell_onnx_of_collectives();
  CHECK_NOTHROW(onnx::checker::check_model(file.string(), true, false, true));
  onnx::ModelProto model;
  std::ifstream in(file, std::ios::binary);
  REQUIRE(model.ParseFromIstream(&in));
  CHECK_NOTHROW(onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                                   onnx::ShapeInferenceOptions(true, 1, true)));
}

std::vector<float> floats(const Tensor& tensor) {
  const Tensor copy = tensor.contiguous_copy();
  const auto values = copy.values<float>();
  return {values.begin(), values.end()};
}

const Value& named(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.values, name, &Value::name);
}

/// Kilobytes of this process's memory that no file backs.
[[maybe_unused]] long anonymous_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stol(line.substr(8));
  return -1;
}

}  // namespace

TEST_CASE("a graph written and read again is the same graph") {
  const TemporaryFolder folder;
  const Graph graph = sample();
  const WrittenModel written = save_onnx(graph, folder / "rank0.onnx", folder / "rank0.data");
  CHECK(written.model.bytes == std::filesystem::file_size(folder / "rank0.onnx"));
  CHECK(written.model.xxh3 == xxh3_of_file(folder / "rank0.onnx"));
  CHECK(written.data.bytes == 32 * 32 * sizeof(float));  // tied weights are written once
  CHECK(written.data.xxh3 == xxh3_of_file(folder / "rank0.data"));
  check_with_onnx(folder / "rank0.onnx");

  const Graph read = load_onnx(folder / "rank0.onnx", {});
  CHECK(read.name == graph.name);
  CHECK(read.opsets == graph.opsets);
  CHECK(weight_bytes(read) == weight_bytes(graph));
  REQUIRE(read.values.size() == graph.values.size());
  for (const Value& value : graph.values) {
    const Value& other = named(read, value.name);
    CHECK(other.type == value.type);
    CHECK(other.shape == value.shape);
    REQUIRE(other.constant.has_value() == value.constant.has_value());
    if (value.constant) CHECK(floats(*other.constant) == floats(*value.constant));
  }
  CHECK(text_of(read) == text_of(graph));
}

TEST_CASE("a graph whose constants are all small needs no data file") {
  const TemporaryFolder folder;
  const Graph graph = import(parse_graph(18, R"((float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    y = Add(x, w) })"));
  const WrittenModel written = save_onnx(graph, folder / "m.onnx", folder / "m.data");
  CHECK(written.data.bytes == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "m.data"));
  CHECK(text_of(load_onnx(folder / "m.onnx", {})) == text_of(graph));
}

TEST_CASE("slices of weights are written as what they stand for") {
  const Tensor whole = counting({6, 5, 64});
  const std::vector<std::vector<Range>> slices{
      {{2, 5}, {0, 5}, {0, 64}}, {{0, 6}, {1, 4}, {0, 64}}, {{1, 6}, {0, 3}, {32, 64}}};
  for (const std::vector<Range>& ranges : slices) {
    const Tensor slice = whole.slice(ranges);
    Graph graph;
    graph.opsets = {{"", 18}};
    const ValueId y = graph.add_value({"y", DataType::float32, slice.shape(), {}});
    const ValueId sliced = graph.add_constant("sliced", slice);
    graph.nodes = {{"a", "Neg", "", {sliced}, {y}, {}}};
    graph.outputs = {y};
    const TemporaryFolder folder;
    save_onnx(graph, folder / "m.onnx", folder / "m.data");
    check_with_onnx(folder / "m.onnx");
    const Graph read = load_onnx(folder / "m.onnx", {});
    const Tensor& constant = *named(read, "sliced").constant;
    CHECK(constant.is_aligned());
    std::vector<float> expected;
    const std::vector<float> all = floats(whole);
    for (auto i = ranges[0].begin; i < ranges[0].end; ++i) {
      for (auto j = ranges[1].begin; j < ranges[1].end; ++j) {
        for (auto k = ranges[2].begin; k < ranges[2].end; ++k) {
          expected.push_back(all[static_cast<std::size_t>((i * 5 + j) * 64 + k)]);
        }
      }
    }
    CHECK(floats(constant) == expected);
  }
}

TEST_CASE("collectives and every kind of attribute survive writing and reading") {
  Graph graph;
  graph.opsets = {{"", 18}, {collective_domain, 1}};
  const ValueId x = graph.add_value({"x", DataType::float32, {3, 4}, {}});
  const ValueId y = graph.add_value({"y", DataType::float32, {7, 4}, {}});
  const ValueId z = graph.add_value({"z", DataType::float32, {2}, {}});
  const ValueId n = graph.add_constant("n", Tensor::of_int64({1}, std::vector<std::int64_t>{2}));
  using Ints = std::vector<std::int64_t>;
  graph.nodes = {{"gather",
                  "AllGather",
                  collective_domain,
                  {x},
                  {y},
                  {{"dim", std::int64_t{0}},
                   {"sizes", Ints{3, 3, 1}},
                   {"mesh_axes", Ints{0}},
                   {"ranks", Ints{0, 1, 2}},
                   {"rank", std::int64_t{0}}}},
                 {"fill", "ConstantOfShape", "", {n}, {z}, {{"value", counting({1})}}}};
  graph.inputs = {x};
  graph.outputs = {y, z};
  const TemporaryFolder folder;
  save_onnx(graph, folder / "m.onnx", folder / "m.data");
  check_with_onnx(folder / "m.onnx");
  const Graph read = load_onnx(folder / "m.onnx", {});
  CHECK(read.nodes[0].ints_attribute("sizes", {}) == Ints{3, 3, 1});
  CHECK(std::get<Tensor>(read.nodes[1].attributes.at("value")).elements() == 1);
}

TEST_CASE("each collective is written as reading the one before, and read without that") {
  Graph graph;
  graph.opsets = {{"", 18}, {collective_domain, 1}};
  const ValueId x = graph.add_value({"x", DataType::float32, {3}, {}});
  std::vector<ValueId> sums;
  for (const char* name : {"a", "b", "c"}) {
    sums.push_back(graph.add_value({name, DataType::float32, {3}, {}}));
    graph.nodes.push_back({name,
                           "AllReduce",
                           collective_domain,
                           {x},
                           {sums.back()},
                           {{"reduce", std::string("sum")},
                            {"mesh_axes", std::vector<std::int64_t>{0}},
                            {"ranks", std::vector<std::int64_t>{0, 1}},
                            {"rank", std::int64_t{0}}}});
  }
  graph.inputs = {x};
  graph.outputs = sums;
  const TemporaryFolder folder;
  save_onnx(graph, folder / "m.onnx", folder / "m.data");
  check_with_onnx(folder / "m.onnx");
  onnx::ModelProto model;
  std::ifstream file(folder / "m.onnx", std::ios::binary);
  REQUIRE(model.ParseFromIstream(&file));
  const auto& nodes = model.graph().node();
  CHECK(nodes[0].input_size() == 1);
  CHECK(nodes[1].input(1) == "a");
  CHECK(nodes[2].input(1) == "b");
  for (const Node& node : load_onnx(folder / "m.onnx", {}).nodes) CHECK(node.inputs.size() == 1);
}

TEST_CASE("a file that cannot grow is an error that names it") {
  const TemporaryFolder folder;
  {
    const SmallFiles small(4000);  // less than the weights have
    CHECK_THROWS_WITH(save_onnx(sample(), folder / "m.onnx", folder / "m.data"),
                      Catch::Contains("cannot write") && Catch::Contains("m.data: File too large"));
  }
  CHECK_THROWS_WITH(save_onnx(sample(), folder / "none/m.onnx", folder / "none/m.data"),
                    Catch::Contains("none/m.data") && Catch::Contains("No such file"));
}

TEST_CASE("absent weights cannot be written") {
  Graph graph = sample();
  graph.values[5].constant = Tensor::absent(DataType::float32, {32, 32});
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(save_onnx(graph, folder / "m.onnx", folder / "m.data"),
                    Catch::Contains("'weight' is absent"));
}

TEST_CASE("external weights beyond 2 GiB are mapped, not read") {
  const TemporaryFolder folder;
  constexpr std::uint64_t offset = (std::uint64_t{5} << 30) + 4096;
  {
    std::ofstream out(folder / "weights.bin", std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    const Tensor values = counting({512});
    out.write(reinterpret_cast<const char*>(values.data()), 2048);
  }
  onnx::ModelProto model = parse_graph(18, "(float[512] x) => (float[512] y) { y = Add(x, w) }");
  auto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(512);
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"location", "weights.bin"}, {"offset", std::to_string(offset)}, {"length", "2048"}}) {
    auto& entry = *w.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  write_model(model, folder / "model.onnx");
  const Graph graph = load_onnx(folder / "model.onnx", {});
  CHECK(floats(*named(graph, "w").constant) == floats(counting({512})));
  const ModelOverview overview = onnx_overview(folder / "model.onnx");
  CHECK(overview.weights == 1);
  CHECK(overview.weight_bytes == 2048);
}

// ThreadSanitizer's shadow of the mapped file is anonymous memory.
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("embedded weights of 200 MB stay in the mapped file") {
  // Written on the wire level with a hole for the weight, so that the file takes no space.
  constexpr std::int64_t weight_size = std::int64_t{200} << 20;
  const auto varint = [](std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7F) | 0x80));
    bytes.push_back(static_cast<char>(value));
    return bytes;
  };
  onnx::ModelProto model = parse_graph(18, "(float[4] x) => (float[4] y) { y = Add(x, w) }");
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(weight_size / 16);
  tensor.add_dims(4);
  model.mutable_graph()->mutable_output(0)->mutable_type()->clear_value();
  const std::string graph = model.graph().SerializeAsString();
  const std::string raw_head = "\x4A" + varint(static_cast<std::uint64_t>(weight_size));
  const std::string tensor_head = tensor.SerializeAsString() + raw_head;
  const std::string initializer_head =
      "\x2A" + varint(tensor_head.size() + static_cast<std::uint64_t>(weight_size)) + tensor_head;
  model.clear_graph();
  const std::string head =
      model.SerializeAsString() + "\x3A" +
      varint(graph.size() + initializer_head.size() + static_cast<std::uint64_t>(weight_size)) +
      graph + initializer_head;
  const TemporaryFolder folder;
  std::ofstream(folder / "model.onnx", std::ios::binary) << head;
  std::filesystem::resize_file(folder / "model.onnx",
                               head.size() + static_cast<std::uint64_t>(weight_size));

  const long before = anonymous_kilobytes();
  const Graph loaded = load_onnx(folder / "model.onnx", {});
  CHECK(weight_bytes(loaded) == weight_size);
  CHECK(anonymous_kilobytes() - before < 40 * 1024);
  const Tensor& weight = *named(loaded, "w").constant;
  CHECK(weight.has_data());
  CHECK(weight.data()[weight_size - 1] == std::byte{0});
  const long loaded_kilobytes = anonymous_kilobytes();
  Graph half = loaded;
  const ValueId id = static_cast<ValueId>(&named(loaded, "w") - loaded.values.data());
  half.value(id).constant = weight.slice(std::vector<Range>{{0, weight_size / 16}, {0, 2}});
  half.value(id).shape = half.value(id).constant->shape();
  save_onnx(half, folder / "half.onnx", folder / "half.data");
  CHECK(anonymous_kilobytes() - loaded_kilobytes < 20 * 1024);
}
#endif
