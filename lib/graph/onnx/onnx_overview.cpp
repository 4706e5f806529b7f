#include "graph/onnx/onnx_overview.h"

#include "graph/graph.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/import/input_shapes.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {
namespace {

ModelOverview::Port port_of(const onnx::ValueInfoProto& info) {
  ModelOverview::Port port{info.name(), DataType::undefined, {}};
  if (!info.type().has_tensor_type()) return port;
  const auto& type = info.type().tensor_type();
  if (is_data_type(type.elem_type())) port.type = static_cast<DataType>(type.elem_type());
  for (const auto& dim : type.shape().dim()) {
    const std::string symbol = dim.dim_param().empty() ? "?" : dim.dim_param();
    port.dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : symbol);
  }
  return port;
}

}  // namespace

bool is_open(const std::string& dim) {
  return dim.find_first_not_of("0123456789") != std::string::npos;
}

ModelOverview onnx_overview(const std::filesystem::path& file) {
  register_collective_schemas();
  ModelFile model_file(file, /*weights_may_be_absent=*/true);
  const onnx::ModelProto& model = model_file.model();
  ModelOverview overview;
  overview.producer = model.producer_name();
  overview.ir_version = model.ir_version();
  overview.opsets = model_file.opsets();
  for (const auto* input : free_inputs(model.graph())) overview.inputs.push_back(port_of(*input));
  for (const auto& output : model.graph().output()) overview.outputs.push_back(port_of(output));
  for (const auto& node : model.graph().node()) {
    Node named;
    named.op_type = node.op_type();
    named.domain = canonical_domain(node.domain());
    ++overview.operators[qualified_op_type(named)];
  }
  Graph weights;
  for (const auto& initializer : model.graph().initializer()) {
    const Tensor tensor = model_file.tensor(initializer);
    weights.add_value({initializer.name(), tensor.type(), tensor.shape(), tensor});
  }
  overview.weights = static_cast<std::int64_t>(weights.values.size());
  overview.weight_bytes = weight_bytes(weights);
  return overview;
}

std::vector<std::string> names_in_onnx(const std::filesystem::path& file) {
  const ModelFile model_file(file, /*weights_may_be_absent=*/true);
  const onnx::GraphProto& graph = model_file.model().graph();
  std::vector<std::string> names;
  for (const auto& input : graph.input()) names.push_back(input.name());
  for (const auto& initializer : graph.initializer()) names.push_back(initializer.name());
  for (const auto& node : graph.node()) {
    names.push_back(node.name().empty() ? node.op_type() : node.name());
    names.insert(names.end(), node.output().begin(), node.output().end());
  }
  return names;
}

}  // namespace autopar::graph
