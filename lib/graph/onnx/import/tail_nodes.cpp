#include "graph/onnx/import/tail_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "graph/onnx/external_data_writer.h"
#include "graph/onnx/import/work.h"
#include "graph/onnx/node_to_proto.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/onnx/topological_order.h"

namespace autopar::graph {
namespace {

/// The graph before the tail is not worth a split where the tail has more of the weights or of the
/// arithmetic.
constexpr double most_share = 0.9;

/// Whether the operator reads some rows of its first input: large tables cost nothing to compute.
bool looks_up(std::string_view op_type) { return op_type == "Gather"; }

/// A tail in the making.
struct TailInProgress {
  onnx::ModelProto model;
  Tail tail;
};

onnx::ModelProto empty_tail_of(const onnx::ModelProto& whole) {
  onnx::ModelProto model;
  model.set_ir_version(whole.ir_version());
  model.set_producer_name("autopar");
  *model.mutable_opset_import() = whole.opset_import();
  model.mutable_graph()->set_name(whole.graph().name().empty() ? "tail" : whole.graph().name());
  return model;
}

/// Keeps the tensor's data outside of the message, as Tail::model has it.
void hold(const Tensor& tensor, onnx::TensorProto& proto, Tail& tail) {
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  proto.clear_external_data();
  auto& entry = *proto.add_external_data();
  entry.set_key("location");
  entry.set_value(std::to_string(tail.tensors.size()));
  tail.tensors.push_back(tensor);
}

void add_constant(const Value& value, TailInProgress& made) {
  auto& proto = *made.model.mutable_graph()->add_initializer();
  const Tensor& tensor = *value.constant;
  if (holds_weights(value.type)) made.tail.summary.weight_bytes += tensor.size_bytes();
  if (tensor.has_data() && tensor.size_bytes() < smallest_external_bytes) {
    proto = tensor_to_proto(value.name, tensor.contiguous_copy());
    return;
  }
  proto.set_name(value.name);
  proto.set_data_type(static_cast<int>(value.type));
  proto.mutable_dims()->Add(value.shape.begin(), value.shape.end());
  hold(tensor, proto, made.tail);
}

/// What the tail reads of the graph, each value once. Where a value has another name in the graph,
/// an Identity makes that of the tail; a sequence is put together again.
void add_reads(const TailReads& reads, const Graph& graph, TailInProgress& made) {
  std::set<std::string> added;
  for (const TailRead& read : reads) {
    for (const ValueId id : read.values) {
      const Value& value = graph.value(id);
      if (!added.insert(value.name).second) continue;
      if (value.constant) {
        add_constant(value, made);
      } else {
        write_type(*made.model.mutable_graph()->add_input(), value);
        made.tail.summary.inputs.push_back(value.name);
      }
    }
    if (!read.is_sequence && graph.value(read.values.front()).name == read.name) continue;
    auto& node = *made.model.mutable_graph()->add_node();
    node.set_op_type(!read.is_sequence     ? "Identity"
                     : read.values.empty() ? "SequenceEmpty"
                                           : "SequenceConstruct");
    for (const ValueId id : read.values) node.add_input(graph.value(id).name);
    node.add_output(read.name);
  }
}

ModelOutput described(const onnx::ValueInfoProto& output, const ModelFile& file) {
  const std::string where = file.path().string();
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
void add_functions(const Nodes& nodes, const onnx::ModelProto& whole,
                   std::set<const onnx::FunctionProto*>& added, onnx::ModelProto& model) {
  for (const auto& node : nodes) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_functions(attribute.g().node(), whole, added, model);
      for (const auto& graph : attribute.graphs()) add_functions(graph.node(), whole, added, model);
    }
    for (const auto& function : whole.functions()) {
      const bool is_called = function.name() == node.op_type() &&
                             function.overload() == node.overload() &&
                             canonical_domain(function.domain()) == canonical_domain(node.domain());
      if (!is_called || !added.insert(&function).second) continue;
      *model.add_functions() = function;
      add_functions(function.node(), whole, added, model);
    }
  }
}

/// Holds the data of the model's own files.
void hold_external_tensors(ModelFile& file, TailInProgress& made) {
  const int own = made.model.graph().initializer_size();
  int initializer = 0;
  for_each_tensor(made.model, [&](onnx::TensorProto& proto) {
    if (initializer++ < own || proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor tensor = file.tensor(proto);
    if (holds_weights(tensor.type())) made.tail.summary.weight_bytes += tensor.size_bytes();
    hold(tensor, proto, made.tail);
  });
}

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

/// The tail's bytes of such weights; those of graphs within its nodes are not looked up.
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
  const onnx::ModelProto& whole = file.model();
  TailInProgress made{empty_tail_of(whole), {}};
  add_reads(reads, graph, made);
  for (const auto* node : nodes.nodes()) *made.model.mutable_graph()->add_node() = *node;
  Tail& tail = made.tail;
  for (const auto& output : whole.graph().output()) {
    tail.summary.model_outputs.push_back(output.name());
    if (!nodes.makes(output.name())) continue;
    *made.model.mutable_graph()->add_output() = output;
    tail.summary.outputs.push_back(described(output, file));
  }
  std::set<const onnx::FunctionProto*> functions;
  add_functions(made.model.graph().node(), whole, functions, made.model);
  hold_external_tensors(file, made);
  tail.model = made.model.SerializeAsString();
  tail.summary.nodes = static_cast<std::int64_t>(nodes.nodes().size());
  tail.summary.first_node = describe(*nodes.nodes().front());
  tail.summary.reason = nodes.reason();
  const std::string place = fmt::format("{}: {}: ", file.path().string(), tail.summary.first_node);
  if (tail.summary.reason.starts_with(place)) tail.summary.reason.erase(0, place.size());
  tail.computed_weight_bytes =
      computed_weight_bytes(nodes, reads, graph, tail.summary.weight_bytes);
  return std::move(tail);
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
