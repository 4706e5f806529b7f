#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file_digest.h"
#include "planner/planner.h"
#include "planner/shape_source.h"
#include "runtime/session.h"

/// Bundles of all kinds, small enough to be run thousands of times; for tests and fuzzers.
namespace autopar::testing {

/// One run: its inputs' shapes, of float32, and its steps.
struct SampleRun {
  std::vector<std::pair<std::string, graph::Shape>> inputs;
  int steps = 1;
};

struct Sample {
  std::string name;
  std::string model;  ///< in ONNX's text form
  planner::ModelOptions options;
  planner::PlanOptions plan;
  std::vector<SampleRun> runs;
};

/// "float[4, 6] w = {...}".
inline std::string weight(const std::string& name, int rows, int columns) {
  std::string text =
      "float[" + std::to_string(rows) + ", " + std::to_string(columns) + "] " + name + " = {";
  for (int i = 0; i < rows * columns; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string((i * 7 + 3) % 11 - 5) + ".5";
  return text + "}";
}

inline std::vector<Sample> sample_bundles() {
  const std::string products = "<" + weight("w", 6, 8) + ", " + weight("v", 8, 6) + "> " +
                               "{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }";
  return {{.name = "product",
           .model = "(float[batch, 6] x) => (float[batch, 6] y) " + products,
           .options = {.shapes = {"x=4x6"}},
           .plan = {.ngpus = 2},
           .runs = {{{{"x", {4, 6}}}}, {{{"x", {3, 6}}}}}},
          {.name = "stages",
           .model = "(float[batch, 6] x) => (float[batch, 6] y) " + products,
           .options = {.shapes = {"x=5x6"}},
           .plan = {.ngpus = 4, .stages = "2", .microbatches = 2},
           .runs = {{{{"x", {5, 6}}}}}},
          {.name = "states",
           .model = "(float[1, n, 4] x, float[1, m, 4] past) => "
                    "(float[1, n, 4] y, float[1, k, 4] present) <" +
                    weight("w", 4, 4) +
                    "> { h = MatMul(x, w) present = Concat <axis = 1> (past, h) "
                    "s = ReduceMax <keepdims = 1> (present) y = Add(h, s) }",
           .options = {.shapes = {"x=1x1x4,1x3x4", "past=1x2x4,1x2x4"}, .loops = {"present=past"}},
           .plan = {.ngpus = 2},
           .runs = {{{{"x", {2, 1, 1, 4}}}, 2}, {{{"x", {1, 3, 4}}, {"past", {1, 2, 4}}}}}},
          {.name = "tail",
           .model = "(float[4, 6] x) => (float[4, 8] h, int64[2, n] z) <" + weight("w", 6, 8) +
                    "> { h = MatMul(x, w) z = NonZero(h) }",
           .options = {},
           .plan = {.ngpus = 2},
           .runs = {{{{"x", {4, 6}}}}}}};
}

inline std::string bytes_of_file(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Numbers that differ, of both signs.
inline graph::Tensor sample_tensor(const graph::Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 5 % 13) - 6) / 4;
  return graph::Tensor::of_float(shape, values);
}

/// The outputs of all runs, as text.
inline std::string outputs_of(const Sample& sample, const std::filesystem::path& bundle,
                              std::chrono::milliseconds timeout = std::chrono::minutes(2)) {
  std::string text;
  runtime::SessionOptions options;
  options.device.threads = 1;
  options.launch.timeout = timeout;
  options.launch.launcher = "none";
  options.shapes = planner::shape_source(bundle);
  runtime::Session session(bundle, options);
  for (const SampleRun& run : sample.runs) {
    runtime::NamedTensors inputs;
    for (const auto& [name, shape] : run.inputs) inputs.emplace(name, sample_tensor(shape));
    const runtime::RunResult result = session.run(inputs, {.loop = {.steps = run.steps}});
    for (const auto& [name, tensor] : result.outputs) {
      Xxh3Stream digest;
      digest.add(tensor.contiguous_copy().bytes());
      text += name + " " + graph::to_string(tensor.shape()) + " " + digest.digest() + ";";
    }
  }
  return text;
}

}  // namespace autopar::testing
