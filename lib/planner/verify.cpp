#include "planner/verify.h"

#include <algorithm>

#include "base/problems.h"
#include "base/temporary_folder.h"
#include "planner/load_model.h"
#include "planner/shape_source.h"
#include "runtime/rank_device.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "runtime/tail_run.h"
#include "runtime/tensor_files.h"
#include "runtime/tensor_folder.h"

namespace autopar::planner {

namespace {

using runtime::NamedTensors;

double tolerance_of(const graph::Graph& model) {
  const auto has = [&](graph::DataType type) {
    return std::ranges::find(model.values, type, &graph::Value::type) != model.values.end();
  };
  if (has(graph::DataType::bfloat16)) return 8e-2;
  return has(graph::DataType::float16) ? 1e-2 : 1e-4;
}

/// With the shapes of these inputs.
graph::Imported load_whole_model(ModelOptions options, const NamedTensors& inputs) {
  for (const auto& [name, tensor] : inputs)
    if (!tensor.shape().empty())
      options.shapes.push_back(name + "=" + graph::to_string(tensor.shape()));
  return load_graph(options);
}

NamedTensors outputs_of_tail(const graph::Tail& tail, const NamedTensors& inputs,
                             const NamedTensors& made, const runtime::DeviceOptions& device) {
  const TemporaryFolder folder;
  graph::save_tail(tail, folder / "tail.onnx", folder / "tail.data");
  const int threads = runtime::threads_of(device, {.rank = 0, .count = 1});
  return runtime::load_tail(folder / "tail.onnx", tail.summary, threads)(inputs, made);
}

NamedTensors run_whole(const graph::Imported& model, const NamedTensors& inputs,
                       const runtime::DeviceOptions& device) {
  NamedTensors outputs = runtime::run_whole(model.graph, inputs, device);
  return model.tail ? outputs_of_tail(*model.tail, inputs, outputs, device) : outputs;
}

/// What is expected of the session's outputs, by their files.
NamedTensors load_expected(const std::filesystem::path& folder, const runtime::Session& session) {
  std::vector<std::string> names;
  for (const runtime::ModelPort& output : session.outputs()) names.push_back(output.name);
  const auto files = runtime::find_tensor_files(folder, "output", names);
  NamedTensors expected;
  Problems problems;
  for (const std::string& name : names) {
    if (const auto file = files.find(name); file != files.end())
      problems.collect([&] { expected[name] = runtime::load_tensor_file(file->second); });
    else
      problems.add("--expected {}: there is no file for output '{}', such as {}.npy",
                   folder.string(), name, runtime::safe_file_name(name));
  }
  problems.throw_if_any();
  return expected;
}

/// Throws Error where `expected` is of another type or shape than what was made.
void check_form(const std::filesystem::path& folder, const std::string& name,
                const graph::Tensor& expected, const graph::Tensor& made) {
  const auto form = [](const graph::Tensor& tensor) {
    return fmt::format("{} {}", name_of(tensor.type()), graph::to_string(tensor.shape()));
  };
  if (expected.type() != made.type() || expected.shape() != made.shape())
    fail("--expected {}: output '{}' is {} there, but {} in the bundle", folder.string(), name,
         form(expected), form(made));
}

}  // namespace

const Verification::Output& Verification::worst() const {
  return *std::ranges::max_element(outputs.rbegin(), outputs.rend(), {}, &Output::relative_error);
}

std::optional<Verification> verify(const ModelOptions& model,
                                   const std::filesystem::path& bundle_dir,
                                   const NamedTensors& inputs,
                                   const runtime::SessionOptions& options,
                                   const std::filesystem::path& expected) {
  runtime::SessionOptions with_shapes = options;
  if (!with_shapes.shapes) with_shapes.shapes = shape_source(bundle_dir, model.limits);
  runtime::Session session(bundle_dir, with_shapes);
  NamedTensors references;
  if (!expected.empty()) references = load_expected(expected, session);
  const runtime::RunResult sharded = session.run(inputs);
  if (!session.has_first_rank()) return std::nullopt;

  const graph::Imported whole_model = load_whole_model(model, inputs);
  if (expected.empty()) references = run_whole(whole_model, inputs, options.device);
  Verification verification{.outputs = {}, .tolerance = tolerance_of(whole_model.graph)};
  for (const runtime::ModelPort& output : session.outputs()) {
    const auto reference = references.find(output.name);
    if (reference == references.end()) {
      fail("{} has no output '{}', which {} has; verify a bundle with the model it was made from",
           model.file.string(), output.name, bundle_dir.string());
    }
    const graph::Tensor& made = sharded.outputs.at(output.name);
    if (!expected.empty()) check_form(expected, output.name, reference->second, made);
    verification.outputs.push_back(
        {output.name, runtime::largest_relative_error(reference->second, made)});
  }
  return verification;
}

}  // namespace autopar::planner
