#include "planner/independent_rows.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "planner/planner.h"
#include "planner/structure.h"
#include "unit/graph/models.h"

namespace autopar::planner {
namespace {

using Catch::Matchers::Contains;
using runtime::BatchDims;
using runtime::InputShapes;

const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";

void write_bundle_of(const std::filesystem::path& model, const std::vector<std::string>& shapes,
                     const std::filesystem::path& out, const PlanOptions& how = {.ngpus = 2}) {
  write_bundle(plan(load_model({.file = model, .shapes = shapes}), how), {.out = out});
}

/// What is proven of a model in ONNX's text form, for inputs of these shapes.
BatchDims proven(const std::string& text, const InputShapes& inputs) {
  const TemporaryFolder folder;
  graph::write_model(graph::parse_graph(18, text), folder / "model.onnx");
  std::vector<std::string> shapes;
  for (const auto& [name, shape] : inputs) shapes.push_back(name + "=" + graph::to_string(shape));
  write_bundle_of(folder / "model.onnx", shapes, folder / "bundle");
  return row_proof(folder / "bundle")(inputs);
}

std::string refusal(const std::string& text, const InputShapes& inputs) {
  try {
    proven(text, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("rows are proven independent wherever inputs have the batch") {
  const BatchDims dims = proven(R"(
    (float[batch, n, 4] x, float[1, batch, 4] h, float[n, 4] c) =>
    (float[batch, n, 4] y, float[n, batch, 4] z) {
      rows = Transpose <perm = [1, 0, 2]> (h)
      sum = Add(x, rows)
      y = Add(sum, c)
      z = Transpose <perm = [1, 0, 2]> (y)
    })",
                                {{"x", {2, 5, 4}}, {"h", {1, 2, 4}}, {"c", {5, 4}}});
  CHECK(dims == BatchDims{.inputs = {{"x", 0}, {"h", 1}}, .outputs = {{"y", 0}, {"z", 1}}});
}

TEST_CASE("where something is computed across the first open dimension, it is in the next one") {
  const BatchDims dims = proven(R"(
    (float[steps, batch, 4] x) => (float[steps, batch, 4] y) { y = Softmax <axis = 0> (x) })",
                                {{"x", {5, 2, 4}}});
  CHECK(dims == BatchDims{.inputs = {{"x", 1}}, .outputs = {{"y", 1}}});
}

TEST_CASE("what there is no proof for is named") {
  CHECK_THAT(refusal("(float[batch, 4] x) => (float[batch, 4] y) { y = Softmax <axis = 0> (x) }",
                     {{"x", {2, 4}}}),
             Contains("(Softmax) computes across the batch") && !Contains("--"));
  CHECK_THAT(refusal("(float[batch, 4] x) => (float[batch, batch] y) { "
                     "t = Transpose(x) y = MatMul(x, t) }",
                     {{"x", {2, 4}}}),
             !Contains("--") && Contains("batch"));
  CHECK_THAT(refusal(R"((float[batch, 4] x) => (float[batch, 4] y) {
                          shape = Shape <start = 0, end = 1> (x)
                          size = Cast <to = 1> (shape)
                          y = Div(x, size) })",
                     {{"x", {2, 4}}}),
             Contains("computes with the size of its batch"));
  CHECK_THAT(refusal(R"((float[batch, 4] x) => (float[batch, 4] y, int64[2] n) {
                          y = Relu(x)
                          n = Shape(x) })",
                     {{"x", {2, 4}}}),
             Contains("output 'n' has nothing of the batch"));
  CHECK_THAT(refusal("(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }", {{"x", {2, 4}}}),
             Contains("no input whose batch may have another size"));
}

TEST_CASE("rows of sample models are independent, with caches and masks") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> samples = {
      {"bert-dynamo", "attention_mask"},
      {"gpt2-torchscript", "input_ids"},
      {"llama-step-dynamo", "past_key_values.1.key"},
      {"t5-decoder-dynamo", "encoder_hidden_states"}};
  for (const auto& [name, input] : samples) {
    INFO(name);
    const std::filesystem::path out = folder / name;
    write_bundle_of(models / name / "model.onnx", {}, out);
    InputShapes shapes;
    const bundle::MetaInfo info = bundle::load_meta_info(out);
    for (const bundle::PortInfo& port : info.profiles.front().inputs)
      shapes.emplace(port.name, port.shape);
    const BatchDims dims = row_proof(out)(shapes);
    CHECK(dims.inputs.size() == shapes.size());
    CHECK(dims.inputs.at(input) == 0);
    CHECK(dims.outputs.size() == info.profiles.front().outputs.size());
  }
}

TEST_CASE("a bundle for its profiles alone has no proof, and no shapes of its model") {
  const TemporaryFolder folder;
  const std::filesystem::path mlp = models / "mlp-dynamo/model.onnx";
  write_bundle_of(mlp, {"x=8x48"}, folder / "cut", {.ngpus = 2, .microbatches = 2});
  CHECK_FALSE(row_proof(folder / "cut"));
  CHECK(declared_shapes(folder / "cut").empty());
  write_bundle_of(mlp, {"x=8x48"}, folder / "whole");
  CHECK(declared_shapes(folder / "whole") ==
        std::map<std::string, graph::Shape>{{"x", {-1, 48}}, {"y", {-1, 48}}});
}

}  // namespace autopar::planner
