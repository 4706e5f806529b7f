#include "graph/onnx/model_importer.h"

#include <algorithm>
#include <unordered_set>

#include "base/problems.h"
#include "graph/contrib/microsoft_operators.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/operator_advice.h"
#include "graph/onnx/refused_nodes.h"
#include "graph/onnx/topological_order.h"

namespace autopar::graph {

ModelImporter::ModelImporter(ModelFile& file, const ImportOptions& options, OfUnknownShape unknown,
                             Folding folding)
    : file_(file),
      options_(options),
      unknown_(unknown),
      folding_(folding),
      where_(file.path().string()),
      nodes_(file, options, folding) {}

Imported ModelImporter::run() {
  Scope scope;
  walk(scope);
  const onnx::GraphProto& proto = file_.model().graph();
  std::unordered_set<std::string> names;
  for (const auto& output : proto.output()) names.insert(output.name());
  tail_.keep_what_makes(std::move(names));
  std::vector<std::pair<std::string, ValueId>> outputs;
  for (const auto& output : proto.output())
    if (!tail_.makes(output.name()))
      outputs.emplace_back(output.name(), nodes_.model_output(output.name(), scope));
  const TailReads reads = reads_of_tail(scope, outputs);
  Imported imported;
  Graph& graph = imported.graph;
  graph = nodes_.builder().finish(outputs);
  graph.name = proto.name();
  graph.opsets = nodes_.used_opsets(graph);
  if (!tail_.empty()) imported.tail = make_tail(file_, tail_, reads, graph);
  remove_dead_nodes(graph);
  check_invariants(graph);
  if (!tail_.empty()) check_tail(tail_, *imported.tail, graph);
  return imported;
}

std::map<std::string, Tensor> ModelImporter::interpret() {
  Scope scope;
  walk(scope);
  std::map<std::string, Tensor> outputs;
  for (const auto& output : file_.model().graph().output())
    outputs.emplace(output.name(),
                    *nodes_.builder().value(nodes_.model_output(output.name(), scope)).constant);
  return outputs;
}

void ModelImporter::walk(Scope& scope) {
  const onnx::GraphProto& proto = file_.model().graph();
  // A stage that is not a pipeline's last may have no outputs but what it sends.
  const auto sends = [](const onnx::NodeProto& node) {
    return node.domain() == collective_domain && node.op_type() == "Send";
  };
  if (proto.output_size() == 0 && std::ranges::none_of(proto.node(), sends))
    fail("{}: the graph has no outputs", where_);
  if (proto.sparse_initializer_size() > 0)
    fail("{}: initializer '{}' is sparse, which is not supported: export dense weights", where_,
         proto.sparse_initializer(0).values().name());
  const auto order = topological_order(proto, where_);
  nodes_.collect_model_facts(proto);

  scope.opsets = file_.opsets();
  scope.opsets.try_emplace("", nodes_.target_opsets().at(""));
  const BoundInputs bound = add_inputs(proto, scope);
  nodes_.add_initializers(proto, scope);
  if (folding_ == Folding::of_everything) {
    for (const auto* node : order) interpret_node(*node, scope);
    return;
  }
  RefusedNodes refused(where_);
  for (const auto* node : order) refused.try_node(*node, [&] { import_or_leave(*node, scope); });
  warn_of_contradicted_outputs(proto, bound, [&](const std::string& output) {
    const auto found = scope.find(output);
    return found && found->id > no_value ? std::optional(nodes_.builder().value(found->id).shape)
                                         : std::nullopt;
  });
  refused.throw_if_any();
}

void ModelImporter::interpret_node(const onnx::NodeProto& node, Scope& scope) {
  try {
    nodes_.import_node(node, scope);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where_)) throw;
    fail("{}: {}: {}", where_, describe(node), error.what());
  }
}

void ModelImporter::import_or_leave(const onnx::NodeProto& node, Scope& scope) {
  if (unknown_ == OfUnknownShape::refused) return nodes_.import_node(node, scope);
  if (tail_.follows(node)) return tail_.add(node);
  try {
    nodes_.import_node(node, scope);
  } catch (const UnknownShape& reason) {
    if (nodes_.is_local_function(node) && !file_.is_inlined()) throw FunctionHidesTail{};
    for (const std::string& output : node.output()) scope.values.erase(output);
    tail_.add(node, reason.what());
  }
}

TailReads ModelImporter::reads_of_tail(
    const Scope& scope, std::vector<std::pair<std::string, ValueId>>& outputs) const {
  TailReads reads;
  std::unordered_set<ValueId> known;
  for (const auto& [name, id] : outputs) known.insert(id);
  for (const std::string& name : tail_.reads()) {
    const ValueId id = scope.find(name).value().id;
    const bool is_sequence = Sequences::is_sequence(id);
    reads.push_back({name, is_sequence ? nodes_.elements(id) : std::vector{id}, is_sequence});
    for (const ValueId value : reads.back().values) {
      if (value <= no_value)
        fail(
            "{}: '{}' is made before shapes that only a run tells and read behind them, but is a "
            "sequence of sequences or an optional value: take it apart before",
            where_, name);
      const bool is_made =
          !nodes_.builder().is_constant(value) && !nodes_.builder().is_input(value);
      if (is_made && known.insert(value).second)
        outputs.emplace_back(nodes_.builder().value(value).name, value);
    }
  }
  return reads;
}

BoundInputs ModelImporter::add_inputs(const onnx::GraphProto& proto, Scope& scope) {
  BoundInputs bound = bind_inputs(proto, options_, where_);
  Problems problems;
  for (const auto* input : free_inputs(proto))
    problems.collect([&] { add_input(*input, bound.shapes.at(input->name()), scope); });
  problems.throw_if_any();
  return bound;
}

void ModelImporter::add_input(const onnx::ValueInfoProto& input, const Shape& shape, Scope& scope) {
  const DataType type = data_type_from_proto(input.type().tensor_type().elem_type(), input.name());
  if (type == DataType::string)
    fail("{}: input '{}' holds strings, which are not supported: {}", where_, input.name(),
         advice_about_strings);
  const ValueName name{input.name(), true};
  const auto constant = options_.constants.find(input.name());
  if (constant == options_.constants.end())
    return nodes_.bind(scope, input.name(), nodes_.builder().add_input(name, type, shape));
  if (constant->second.type() != type)
    fail("--constant {}: the model's input is {}, not {}", input.name(), name_of(type),
         name_of(constant->second.type()));
  nodes_.bind(scope, input.name(), nodes_.builder().add_constant(name, constant->second, true));
}

void register_schemas() {
  register_collective_schemas();
  register_microsoft_schemas();
}

}  // namespace autopar::graph
