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

class Writer {
 public:
  Writer(const Graph& graph, const std::filesystem::path& data_file)
      : graph_(graph), data_(data_file) {}

  WrittenModel write(const std::filesystem::path& model_file) {
    write_header();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (graph_.is_constant(id)) write_constant(id);
    }
    for (const Node& node : graph_.nodes) {
      *model_.mutable_graph()->add_node() = node_to_proto(graph_, node);
    }
    write_value_types();
    WrittenModel written;
    written.data = data_.close();
    written.model = save_model(model_, model_file);
    return written;
  }

 private:
  void write_header() {
    model_.set_producer_name("autopar");
    model_.mutable_graph()->set_name(graph_.name.empty() ? "graph" : graph_.name);
    std::int64_t opset = 0;
    for (const auto& [domain, version] : graph_.opsets) {
      auto& import = *model_.add_opset_import();
      import.set_domain(domain);
      import.set_version(version);
      if (domain.empty()) opset = version;
    }
    model_.set_ir_version(ir_version_for(opset));
  }

  void write_constant(ValueId id) {
    const Value& value = graph_.value(id);
    const Tensor& constant = *value.constant;
    if (!constant.has_data())
      fail("the data of weight '{}' is absent, so it cannot be written", value.name);
    auto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(value.name);
    proto.set_data_type(static_cast<int>(value.type));
    proto.mutable_dims()->Add(value.shape.begin(), value.shape.end());
    const std::int64_t bytes = bytes_of(value.type, num_elements(value.shape));
    if (bytes < smallest_external_bytes) {
      std::string& raw = *proto.mutable_raw_data();
      constant.for_each_run([&raw](std::span<const std::byte> run) {
        raw.append(reinterpret_cast<const char*>(run.data()), run.size());
      });
      return;
    }
    data_.write(constant, proto);
  }

  void write_value_types() {
    auto& proto = *model_.mutable_graph();
    for (const ValueId input : graph_.inputs) write_type(*proto.add_input(), graph_.value(input));
    for (const ValueId output : graph_.outputs)
      write_type(*proto.add_output(), graph_.value(output));
    for (const Node& node : graph_.nodes)
      for (const ValueId output : node.outputs)
        if (output != no_value && std::ranges::find(graph_.outputs, output) == graph_.outputs.end())
          write_type(*proto.add_value_info(), graph_.value(output));
  }

  const Graph& graph_;
  onnx::ModelProto model_;
  ExternalDataWriter data_;
};

}  // namespace

WrittenModel save_onnx(const Graph& graph, const std::filesystem::path& model_file,
                       const std::filesystem::path& data_file) {
  return Writer(graph, data_file).write(model_file);
}

}  // namespace autopar::graph
