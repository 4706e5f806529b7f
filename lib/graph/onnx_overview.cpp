#include "graph/onnx_overview.h"

#include <onnx/onnx_pb.h>

#include "graph/input_shapes.h"
#include "graph/model_file.h"

namespace autopar::graph {

namespace {

ModelOverview::Port port_of(const onnx::ValueInfoProto& info) {
  const auto& tensor = info.type().tensor_type();
  ModelOverview::Port port{info.name(), data_type_from_proto(tensor.elem_type(), info.name()), {}};
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      port.dims.push_back(std::to_string(dim.dim_value()));
    } else {
      port.dims.push_back(dim.dim_param().empty() ? "?" : dim.dim_param());
    }
  }
  return port;
}

}  // namespace

ModelOverview onnx_overview(const std::filesystem::path& path) {
  const ModelFile file(path, /*weights_may_be_absent=*/true);
  const onnx::ModelProto& model = file.model();

  ModelOverview overview;
  overview.producer = model.producer_name();
  if (!model.producer_version().empty()) overview.producer += " " + model.producer_version();
  overview.ir_version = model.ir_version();
  overview.opsets = file.opsets();
  for (const auto* input : free_inputs(model.graph())) overview.inputs.push_back(port_of(*input));
  for (const auto& output : model.graph().output()) overview.outputs.push_back(port_of(output));
  for (const auto& node : model.graph().node()) {
    const std::string domain = canonical_domain(node.domain());
    ++overview.operators[domain.empty() ? node.op_type() : domain + "::" + node.op_type()];
  }
  for (const auto& weight : model.graph().initializer()) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : weight.dims()) elements *= extent;
    ++overview.weights;
    overview.weight_bytes +=
        bytes_of(data_type_from_proto(weight.data_type(), weight.name()), elements);
  }
  return overview;
}

}  // namespace autopar::graph
