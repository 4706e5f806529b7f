#include "planner/verify.h"

#include <algorithm>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "planner/load_model.h"
#include "planner/shape_source.h"
#include "runtime/rank_device.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "runtime/tail_run.h"
#include "runtime/tensor_files.h"

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

}  // namespace

const Verification::Output& Verification::worst() const {
  return *std::ranges::max_element(outputs.rbegin(), outputs.rend(), {}, &Output::relative_error);
}

std::optional<Verification> verify(const ModelOptions& model,
                                   const std::filesystem::path& bundle_dir,
                                   const NamedTensors& inputs,
                                   const runtime::SessionOptions& options) {
  runtime::SessionOptions with_shapes = options;
  if (!with_shapes.shapes) with_shapes.shapes = shape_source(bundle_dir, model.limits);
  runtime::Session session(bundle_dir, with_shapes);
  const runtime::RunResult sharded = session.run(inputs);
  if (!session.has_first_rank()) return std::nullopt;

  const graph::Imported whole_model = load_whole_model(model, inputs);
  const NamedTensors whole = run_whole(whole_model, inputs, options.device);
  Verification verification{.outputs = {}, .tolerance = tolerance_of(whole_model.graph)};
  for (const runtime::ModelPort& output : session.outputs()) {
    const auto reference = whole.find(output.name);
    if (reference == whole.end()) {
      fail("{} has no output '{}', which {} has; verify a bundle with the model it was made from",
           model.file.string(), output.name, bundle_dir.string());
    }
    verification.outputs.push_back(
        {output.name,
         runtime::largest_relative_error(reference->second, sharded.outputs.at(output.name))});
  }
  return verification;
}

}  // namespace autopar::planner
