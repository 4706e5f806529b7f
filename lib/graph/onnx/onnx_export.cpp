#include "graph/onnx/onnx_export.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "graph/onnx/external_data_writer.h"
#include "graph/onnx/node_to_proto.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

/// The format that first allows the opset (onnx/docs/Versioning.md), so that older readers do.
std::int64_t ir_version_for(std::int64_t opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  return opset == 23 ? 11 : 12;
}

void write_header(const Graph& graph, onnx::ModelProto& model) {
  model.set_producer_name("autopar");
  model.mutable_graph()->set_name(graph.name.empty() ? "graph" : graph.name);
  std::int64_t opset = 0;
  for (const auto& [domain, version] : graph.opsets) {
    auto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
    if (domain.empty()) opset = version;
  }
  model.set_ir_version(ir_version_for(opset));
}

void write_constant(const Value& value, onnx::GraphProto& graph, ExternalDataWriter& data) {
  const Tensor& constant = *value.constant;
  if (!constant.has_data())
    fail("the data of weight '{}' is absent, so it cannot be written", value.name);
  auto& proto = *graph.add_initializer();
  if (constant.size_bytes() < smallest_external_bytes) {
    proto = tensor_to_proto(value.name, constant);
    return;
  }
  proto.set_name(value.name);
  proto.set_data_type(static_cast<int>(value.type));
  proto.mutable_dims()->Add(value.shape.begin(), value.shape.end());
  data.write(constant, proto);
}

void write_value_types(const Graph& graph, onnx::GraphProto& proto) {
  for (const ValueId input : graph.inputs) write_type(*proto.add_input(), graph.value(input));
  for (const ValueId output : graph.outputs) write_type(*proto.add_output(), graph.value(output));
  for (const Node& node : graph.nodes)
    for (const ValueId output : node.outputs)
      if (output != no_value && std::ranges::find(graph.outputs, output) == graph.outputs.end())
        write_type(*proto.add_value_info(), graph.value(output));
}

/// Other runtimes choose an order among nodes that do not need each other, and ranks whose orders
/// differ wait for each other for ever. So each collective reads the output of the one before.
void chain_collectives(onnx::GraphProto& graph) {
  const onnx::NodeProto* before = nullptr;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.domain() != collective_domain || node.input_size() != 1 || node.output_size() != 1)
      continue;
    if (before != nullptr) node.add_input(before->output(0));
    before = &node;
  }
}

onnx::ModelProto model_of(const Graph& graph, ExternalDataWriter& data) {
  onnx::ModelProto model;
  onnx::GraphProto& proto = *model.mutable_graph();
  write_header(graph, model);
  for (const Value& value : graph.values)
    if (value.constant) write_constant(value, proto, data);
  for (const Node& node : graph.nodes) *proto.add_node() = node_to_proto(graph, node);
  chain_collectives(proto);
  write_value_types(graph, proto);
  return model;
}

}  // namespace

WrittenModels save_onnx(std::span<const Graph> graphs,
                        std::span<const std::filesystem::path> model_files,
                        const std::filesystem::path& data_file) {
  WrittenModels written;
  ExternalDataWriter data(data_file);
  for (std::size_t g = 0; g < graphs.size(); ++g)
    written.models.push_back(save_model(model_of(graphs[g], data), model_files[g]));
  written.data = data.close();
  return written;
}

WrittenModel save_onnx(const Graph& graph, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file) {
  const auto [models, data] = save_onnx({&graph, 1}, {&model_file, 1}, data_file);
  return {.model = models.front(), .data = data};
}

WrittenModel save_annotated(const Graph& graph, const DeviceAnnotations& annotations,
                            const std::filesystem::path& model_file,
                            const std::filesystem::path& data_file) {
  ExternalDataWriter data(data_file);
  onnx::ModelProto model = model_of(graph, data);
  annotate(model, annotations);
  WrittenModel written{.model = save_model(model, model_file), .data = {}};
  written.data = data.close();
  return written;
}

}  // namespace autopar::graph
