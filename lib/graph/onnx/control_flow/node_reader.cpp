#include "graph/onnx/control_flow/node_reader.h"

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/control_flow/control_flow.h"
#include "graph/onnx/import/import_node.h"
#include "graph/onnx/node_inference.h"

namespace autopar::graph {
NodeReader::NodeReader(const onnx::NodeProto& node, std::int64_t opset, Scope& scope)
    : node_(node),
      opset_(opset),
      scope_(scope),
      model_(scope.model),
      prefix_(prefix_inside(node, scope)),
      depth_(model_.frames.depth()) {}

Scope NodeReader::scope_within(const Scope& parent, std::string prefix) const {
  Scope inner(model_);
  inner.depth = model_.frames.depth();
  inner.nesting = scope_.nesting + 1;
  inner.parent = &parent;
  inner.opsets = scope_.opsets;
  inner.prefix = std::move(prefix);
  return inner;
}

Values NodeReader::read(const onnx::GraphProto& body, const Values& inputs, int round) {
  const auto [common, is_new] = initializers_.try_emplace(&body, scope_within(scope_, prefix_));
  common->second.depth = depth_;
  if (is_new) add_initializers(body, common->second);
  Scope inner =
      scope_within(common->second, round < 0 ? prefix_ : fmt::format("{}{}/", prefix_, round));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    define(body.input(static_cast<int>(i)).name(), inputs[i], inner);
  for (const auto& each : body.node()) import_node(each, inner);
  Values outputs;
  for (const auto& output : body.output())
    outputs.push_back(find_value(output.name(), node_, inner));
  return outputs;
}

ValueId NodeReader::add(const std::string& op_type, const Values& inputs,
                        const std::map<std::string, Attribute>& attributes) {
  Scope local = scope_within(scope_, prefix_);
  onnx::NodeProto added;
  added.set_op_type(op_type);
  for (const ValueId id : inputs) {
    const std::string name = fmt::format("\x01{}", id);
    local.values.try_emplace(name, id);
    added.add_input(name);
  }
  for (const auto& [name, value] : attributes) add_attribute(added, name, value);
  added.add_output(op_type);
  model_.budget.take_node([&] { return place_of(node_, model_); });
  import_upgraded(added, local);
  return find_value(op_type, node_, local);
}

void NodeReader::count_round() {
  model_.budget.take_round([&] { return place_of(node_, model_); });
}

ValueId NodeReader::add_constant(Tensor tensor) {
  return model_.builder().add_constant({prefix_ + "constant", false}, std::move(tensor), false);
}

Values NodeReader::add_loop(Values inputs, LoopBody body, const std::vector<LoopOutput>& outputs) {
  if (model_.folding() == Folding::of_everything)
    fail("it makes more than {} rounds, which is not supported behind shapes that only a run tells",
         most_rounds);
  Node loop;
  loop.name = scope_.prefix + node_.name();
  loop.op_type = "Loop";
  loop.inputs = std::move(inputs);
  const std::string name = scope_.prefix + (node_.name().empty() ? "Loop" : node_.name()) + "/last";
  for (const LoopOutput& output : outputs)
    loop.outputs.push_back(model_.builder().add_value({name, false}, output.type, output.shape));
  body.graph.name = loop.name.empty() ? "body" : loop.name;
  body.graph.opsets = model_.facts.target_opsets;
  loop.body = std::make_shared<const LoopBody>(std::move(body));
  Values made = loop.outputs;
  model_.builder().add_node(std::move(loop));
  return made;
}

bool read_control_flow(const onnx::NodeProto& node, std::int64_t opset, Scope& scope) {
  static const std::map<std::string_view, ReadNode> table = {
      {"If", read_if}, {"Loop", read_loop}, {"Scan", read_scan}};
  const auto found = table.find(node.op_type());
  const ReadNode read =
      found == table.end() ? find_sequence_operator(node.op_type()) : found->second;
  if (read == nullptr) return false;
  const ModelReading& model = scope.model;
  schema_of(node, {{"", opset}}, model.where);
  if (scope.nesting >= deepest_nesting)
    fail("{}: {} nests graphs more than {} deep", model.where, describe(node), deepest_nesting);
  const Values inputs = find_inputs(node, scope);
  NodeReader reader(node, opset, scope);
  define_outputs(node, naming_node(node, model, [&] { return read(node, inputs, reader); }), scope);
  return true;
}

}  // namespace autopar::graph
