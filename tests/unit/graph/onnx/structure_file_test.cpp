#include "graph/onnx/structure_file.h"

#include <algorithm>
#include <numeric>

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
namespace fs = std::filesystem;

namespace {

template <typename T>
void add_initializer(onnx::ModelProto& model, const std::string& name, int type,
                     const std::vector<std::int64_t>& dims, const std::vector<T>& values) {
  auto& initializer = *model.mutable_graph()->add_initializer();
  initializer.set_name(name);
  initializer.set_data_type(type);
  for (const std::int64_t extent : dims) initializer.add_dims(extent);
  initializer.set_raw_data(values.data(), values.size() * sizeof(T));
}

/// y = x W + the sum of table[:s], s the rows of x; W is a weight. Both are large
/// enough to be views of the file wherever it has them.
onnx::ModelProto model() {
  onnx::ModelProto model = parse_graph(18, R"((float[rows, 128] x) => (float[rows, 128] y)
      <int64[1] zero = {0}> {
        product = MatMul(x, W)
        shape = Shape<end = 1>(x)
        first = Slice(table, zero, shape, zero)
        total = ReduceSum<keepdims = 0>(first)
        number = Cast<to = 1>(total)
        y = Add(product, number)
      })");
  add_initializer(model, "W", onnx::TensorProto::FLOAT, {128, 128},
                  std::vector<float>(std::size_t{128} * 128, 0.5F));
  std::vector<std::int64_t> table(64 * 64);
  std::iota(table.begin(), table.end(), 0);
  add_initializer(model, "table", onnx::TensorProto::INT64, {64 * 64}, table);
  return model;
}

Graph import_with(const fs::path& file, std::int64_t rows) {
  ImportOptions options;
  options.shapes = {{"x", {rows, 128}}};
  options.weights_may_be_absent = true;
  return load_onnx(file, options);
}

std::string contents_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += node.name + " " + node.op_type + "\n";
  for (const Value& value : graph.values)
    text += value.name + " " + to_string(value.shape) + (value.constant ? " constant\n" : "\n");
  return text;
}

}  // namespace

TEST_CASE("a structure has no weights, and is read for any shape as the model itself is") {
  const TemporaryFolder folder;
  write_model(model(), folder / "model.onnx");
  const Graph graph = import_with(folder / "model.onnx", 8);
  Graph without_table = graph;  // as where an evaluator has folded what reads it
  std::erase_if(without_table.values, [](const Value& value) { return value.name == "table"; });
  const Graph* const graphs[] = {&graph, &without_table};
  save_structure(folder / "model.onnx", {}, graphs, folder / "structure.onnx",
                 folder / "structure.data");
  for (const std::int64_t rows : {1, 8, 40}) {
    const Graph whole = import_with(folder / "model.onnx", rows);
    const Graph structure = import_with(folder / "structure.onnx", rows);
    CHECK(contents_of(structure) == contents_of(whole));
    for (std::size_t v = 0; v < structure.values.size(); ++v) {
      const Value& value = structure.values[v];
      if (!value.constant) continue;
      INFO(value.name);
      CHECK(value.constant->has_data() == (value.name != "W"));
      if (!value.constant->has_data()) continue;
      CHECK(std::ranges::equal(value.constant->bytes(), whole.values[v].constant->bytes()));
    }
  }
}

TEST_CASE("an input that has a value for good is none of the structure's") {
  const TemporaryFolder folder;
  write_model(parse_graph(18, "(float[n] x, int64[1] k) => (float[m] y) { y = Tile(x, k) }"),
              folder / "model.onnx");
  const std::map<std::string, Tensor> constants = {{"k", Tensor::of_int64({1}, {{3}})}};
  ImportOptions options;
  options.shapes = {{"x", {2}}};
  options.constants = constants;
  const Graph graph = load_onnx(folder / "model.onnx", options);
  const Graph* const graphs[] = {&graph};
  save_structure(folder / "model.onnx", constants, graphs, folder / "structure.onnx",
                 folder / "structure.data");
  options.constants.clear();
  options.shapes = {{"x", {5}}};
  const Graph structure = load_onnx(folder / "structure.onnx", options);
  REQUIRE(structure.inputs.size() == 1);
  CHECK(structure.value(structure.outputs.front()).shape == Shape{15});
}
