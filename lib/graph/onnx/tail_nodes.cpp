#include "graph/onnx/tail_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "graph/onnx/external_data_writer.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/onnx/topological_order.h"
#include "graph/onnx/unknown_shape.h"
#include "graph/onnx/work.h"
#include "graph/weight_types.h"

namespace autopar::graph {
namespace {

/// With more of the weights or of the arithmetic in the tail, the graph before it is not worth a
/// split.
constexpr double most_share = 0.9;

/// Operators that read some rows of their first input: large tables cost nothing to compute.
constexpr std::array<std::string_view, 1> lookup_operators = {"Gather"};

bool looks_up(std::string_view op_type) {
  return std::ranges::find(lookup_operators, op_type) != lookup_operators.end();
}

/// Makes the message of a tail.
class TailBuilder {
 public:
  TailBuilder(ModelFile& file, const Graph& graph) : file_(file), graph_(graph) {
    const onnx::ModelProto& whole = file.model();
    model_.set_ir_version(whole.ir_version());
    model_.set_producer_name("autopar");
    *model_.mutable_opset_import() = whole.opset_import();
    model_.mutable_graph()->set_name(whole.graph().name().empty() ? "tail" : whole.graph().name());
  }

  /// What the graph has. Where a value has another name there, an Identity makes that of the tail;
  /// a sequence is put together again.
  void add_read(const TailRead& read) {
    for (const ValueId id : read.values) add_value(graph_.value(id));
    if (!read.is_sequence && graph_.value(read.values.front()).name == read.name) return;
    auto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(!read.is_sequence     ? "Identity"
                     : read.values.empty() ? "SequenceEmpty"
                                           : "SequenceConstruct");
    for (const ValueId id : read.values) node.add_input(graph_.value(id).name);
    node.add_output(read.name);
  }

  void add_node(const onnx::NodeProto& node) { *model_.mutable_graph()->add_node() = node; }

  void add_output(const onnx::ValueInfoProto& output) {
    *model_.mutable_graph()->add_output() = output;
    tail_.summary.outputs.push_back(described(output));
  }

  Tail finish() {
    add_functions(model_.graph().node());
    for (auto& node : *model_.mutable_graph()->mutable_node()) hold_tensors(node);
    for (auto& function : *model_.mutable_functions())
      for (auto& node : *function.mutable_node()) hold_tensors(node);
    tail_.model = model_.SerializeAsString();
    return std::move(tail_);
  }

 private:
  void add_value(const Value& value) {
    if (!read_.insert(value.name).second) return;
    if (value.constant)
      add_constant(value);
    else
      add_input(value);
  }

  void add_constant(const Value& value) {
    auto& proto = *model_.mutable_graph()->add_initializer();
    const Tensor& tensor = *value.constant;
    if (holds_weights(value.type)) tail_.summary.weight_bytes += tensor.size_bytes();
    if (tensor.has_data() && tensor.size_bytes() < smallest_external_bytes) {
      proto = tensor_to_proto(value.name, tensor.contiguous_copy());
      return;
    }
    proto.set_name(value.name);
    proto.set_data_type(static_cast<int>(value.type));
    proto.mutable_dims()->Add(value.shape.begin(), value.shape.end());
    hold(tensor, proto);
  }

  void add_input(const Value& value) {
    auto& input = *model_.mutable_graph()->add_input();
    input.set_name(value.name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int>(value.type));
    auto& shape = *type.mutable_shape();
    for (const std::int64_t extent : value.shape) shape.add_dim()->set_dim_value(extent);
    tail_.summary.inputs.push_back(value.name);
  }

  ModelOutput described(const onnx::ValueInfoProto& output) const {
    const std::string where = file_.path().string();
    if (!output.type().has_tensor_type() || output.type().tensor_type().elem_type() == 0)
      fail("{}: output '{}' has no type of a tensor, and its shape is not known before the run",
           where, output.name());
    const auto& type = output.type().tensor_type();
    ModelOutput result{output.name(), data_type_from_proto(type.elem_type(), output.name()), {}};
    if (result.type == DataType::string)
      fail("{}: output '{}' holds strings, which are not supported", where, output.name());
    if (!type.has_shape()) return result;
    result.dims.emplace();
    for (const auto& dim : type.shape().dim()) {
      const bool is_known = dim.has_dim_value() && dim.dim_value() >= 0;
      result.dims->push_back(is_known ? std::optional(dim.dim_value()) : std::nullopt);
    }
    return result;
  }

  /// The functions that nodes call, and those that these call.
  template <typename Nodes>
  void add_functions(const Nodes& nodes) {
    for (const auto& node : nodes) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) add_functions(attribute.g().node());
        for (const auto& graph : attribute.graphs()) add_functions(graph.node());
      }
      for (const auto& function : file_.model().functions()) {
        const bool is_called =
            function.name() == node.op_type() && function.overload() == node.overload() &&
            canonical_domain(function.domain()) == canonical_domain(node.domain());
        if (!is_called || !functions_.insert(&function).second) continue;
        *model_.add_functions() = function;
        add_functions(function.node());
      }
    }
  }

  void hold_tensors(onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) hold_if_external(*attribute.mutable_t());
      for (auto& tensor : *attribute.mutable_tensors()) hold_if_external(tensor);
      if (attribute.has_g()) hold_tensors(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) hold_tensors(graph);
    }
  }

  void hold_tensors(onnx::GraphProto& graph) {
    for (auto& initializer : *graph.mutable_initializer()) hold_if_external(initializer);
    for (auto& node : *graph.mutable_node()) hold_tensors(node);
  }

  void hold_if_external(onnx::TensorProto& proto) {
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor tensor = file_.tensor(proto);
    if (holds_weights(tensor.type())) tail_.summary.weight_bytes += tensor.size_bytes();
    hold(tensor, proto);
  }

  void hold(const Tensor& tensor, onnx::TensorProto& proto) {
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    proto.clear_external_data();
    auto& entry = *proto.add_external_data();
    entry.set_key("location");
    entry.set_value(std::to_string(tail_.tensors.size()));
    tail_.tensors.push_back(tensor);
  }

  ModelFile& file_;
  const Graph& graph_;
  onnx::ModelProto model_;
  Tail tail_;
  std::set<std::string> read_;
  std::set<const onnx::FunctionProto*> functions_;
};

/// A single number is a limit or a scale, no weight that makes a model large.
bool is_weight(const Value& value) {
  return value.constant && holds_weights(value.type) && num_elements(value.shape) > 1;
}

/// Bytes of those weights of the graph that are more than looked up.
std::int64_t computed_weight_bytes(const Graph& graph) {
  std::set<ValueId> weights;
  for (const Node& node : graph.nodes)
    for (std::size_t i = looks_up(node.op_type) ? 1 : 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != no_value && is_weight(graph.value(node.inputs[i])))
        weights.insert(node.inputs[i]);
  std::int64_t bytes = 0;
  for (const ValueId id : weights) bytes += graph.value(id).constant->size_bytes();
  return bytes;
}

/// The same of the tail; those of graphs within its nodes are not looked up.
std::int64_t computed_weight_bytes(const TailNodes& nodes, const TailReads& reads,
                                   const Graph& graph, std::int64_t all_bytes) {
  std::unordered_set<std::string_view> computed;
  for (const auto* node : nodes.nodes())
    for (const std::string_view name : names_read(*node))
      if (!looks_up(node->op_type()) || name != node->input(0)) computed.insert(name);
  for (const TailRead& read : reads)
    for (const ValueId id : read.values) {
      const Value& value = graph.value(id);
      const bool counts = is_weight(value) && computed.contains(read.name);
      if (value.constant && holds_weights(value.type) && !counts)
        all_bytes -= value.constant->size_bytes();
    }
  return all_bytes;
}

std::string without_place(const std::string& message, const std::string& place) {
  return message.starts_with(place) ? message.substr(place.size()) : message;
}

}  // namespace

bool TailNodes::follows(const onnx::NodeProto& node) const {
  if (empty()) return false;
  return std::ranges::any_of(names_read(node), [this](std::string_view name) {
    return made_.contains(std::string(name));
  });
}

void TailNodes::add(const onnx::NodeProto& node, std::string reason) {
  if (!reason.empty()) reasons_.emplace(&node, std::move(reason));
  nodes_.push_back(&node);
  for (const std::string& output : node.output())
    if (!output.empty()) made_.insert(output);
}

void TailNodes::keep_what_makes(std::unordered_set<std::string> wanted) {
  std::vector<const onnx::NodeProto*> kept;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const bool is_wanted = std::ranges::any_of(
        (*node)->output(), [&](const std::string& output) { return wanted.contains(output); });
    if (!is_wanted) continue;
    for (const std::string_view name : names_read(**node)) wanted.emplace(name);
    kept.push_back(*node);
  }
  nodes_.assign(kept.rbegin(), kept.rend());
}

std::vector<std::string> TailNodes::reads() const {
  std::vector<std::string> result;
  std::set<std::string> known;
  for (const auto* node : nodes_) {
    std::set<std::string> of_node;  // in an order that is always the same
    for (const std::string_view name : names_read(*node)) of_node.emplace(name);
    for (const std::string& name : of_node)
      if (!made_.contains(name) && known.insert(name).second) result.push_back(name);
  }
  return result;
}

Tail make_tail(ModelFile& file, const TailNodes& nodes, const TailReads& reads,
               const Graph& graph) {
  TailBuilder builder(file, graph);
  for (const TailRead& read : reads) builder.add_read(read);
  for (const auto* node : nodes.nodes()) builder.add_node(*node);
  const auto& outputs = file.model().graph().output();
  for (const auto& output : outputs)
    if (nodes.makes(output.name())) builder.add_output(output);
  Tail tail = builder.finish();
  for (const auto& output : outputs) tail.summary.model_outputs.push_back(output.name());
  tail.summary.nodes = static_cast<std::int64_t>(nodes.nodes().size());
  tail.summary.first_node = describe(*nodes.nodes().front());
  tail.summary.reason = without_place(
      nodes.reason(), fmt::format("{}: {}: ", file.path().string(), tail.summary.first_node));
  tail.computed_weight_bytes =
      computed_weight_bytes(nodes, reads, graph, tail.summary.weight_bytes);
  return tail;
}

void check_tail(const TailNodes& nodes, Tail& tail, const Graph& graph) {
  const auto refuse_if_most = [&](double share, std::string_view what) {
    if (share <= most_share) return;
    throw UnknownShape(fmt::format(
        "{}; it and what follows has {:.0f} % of the {}, too much to be left to one rank: cut the "
        "model there, so that it ends in '{}', and partition both parts",
        nodes.reason(), 100 * share, what, fmt::join(tail.summary.inputs, "', '")));
  };
  const auto share_of = [](double of_tail, double before) {
    return of_tail > 0 ? of_tail / (of_tail + before) : 0;
  };
  if (graph.nodes.empty())
    throw UnknownShape(fmt::format("{}; nothing is before it that could be split", nodes.reason()));
  tail.summary.weight_share = share_of(static_cast<double>(tail.computed_weight_bytes),
                                       static_cast<double>(computed_weight_bytes(graph)));
  tail.summary.work_share = share_of(least_work(tail), work(graph));
  refuse_if_most(tail.summary.weight_share, "weights that are computed with");
  refuse_if_most(tail.summary.work_share, "arithmetic, even if it finds only one of each");
}

}  // namespace autopar::graph
