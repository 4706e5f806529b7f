#include "graph/onnx/import/import_node.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/work_signs.h"
#include "graph/contrib/operator_table.h"
#include "graph/onnx/constant_integers.h"
#include "graph/onnx/control_flow/node_reader.h"
#include "graph/onnx/function_body.h"
#include "graph/onnx/import/table_limits.h"
#include "graph/onnx/node_conversion.h"
#include "graph/onnx/operands/check_operands.h"
#include "graph/onnx/opset_upgrade.h"
#include "graph/onnx/schema_registry.h"
#include "graph/operators/library_operator.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

bool has_nested_graph(const onnx::NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

/// The scope of a function's body, whose inputs and the names of whose outputs are the call's.
Scope scope_of_call(const onnx::NodeProto& call, const FunctionBody& body, const Scope& scope) {
  const ModelReading& model = scope.model;
  const onnx::FunctionProto& function = body.function;
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    fail("{}: {} gives its function more inputs or outputs than it has", model.where,
         describe(call));
  Scope inner(scope.model);
  inner.depth = model.frames.depth();
  inner.nesting = scope.nesting + 1;
  if (inner.nesting > deepest_nesting)
    fail("{}: {} calls functions more than {} deep: does one call itself?", model.where,
         describe(call), deepest_nesting);
  inner.opsets = body.opsets;
  inner.prefix = prefix_inside(call, scope);
  for (int o = 0; o < call.output_size(); ++o)
    if (!call.output(o).empty())
      inner.outer_names[function.output(o)] = scope.name_outside(call.output(o));
  const std::vector<ValueId> given = find_inputs(call, scope);
  for (std::size_t i = 0; i < static_cast<std::size_t>(function.input_size()); ++i)
    define(function.input(static_cast<int>(i)), i < given.size() ? given[i] : no_value, inner);
  return inner;
}

/// Reads the body in the place of the node that calls it.
void inline_call(const onnx::NodeProto& call, const FunctionBody& body, Scope& scope) {
  Scope inner = scope_of_call(call, body, scope);
  for (const auto& node : body.function.node()) import_node(node, inner);
  for (int o = 0; o < call.output_size(); ++o)
    if (!call.output(o).empty())
      define(call.output(o), find_value(body.function.output(o), call, inner), scope);
}

/// As inline_call; an error names the call, since the names inside of its body are ours.
void inline_contrib_body(const onnx::NodeProto& call, const FunctionBody& body, Scope& scope) {
  try {
    inline_call(call, body, scope);
  } catch (const LimitReached&) {
    throw;
  } catch (const Error& error) {
    fail("{} (in the body of {})", error.what(), describe(call));
  }
}

/// Upgrading reads inputs that the operator has in its own opset.
void check_declared(const onnx::NodeProto& node, std::int64_t opset, const Scope& scope) {
  const auto* schema =
      SchemaRegistry::instance().GetSchema(node.op_type(), static_cast<int>(opset));
  if (schema == nullptr || schema->deprecated()) return;
  onnx::NodeProto plain = node;
  plain.clear_domain();
  schema_of(plain, {{"", opset}}, scope.model.where);
}

std::vector<onnx::NodeProto> upgraded(const onnx::NodeProto& node, std::int64_t opset,
                                      Scope& scope) {
  check_declared(node, opset, scope);
  const UpgradeServices services{
      [&](const std::string& input) -> const Value& {
        return tensor_value(find_value(input, node, scope), node, scope.model);
      },
      [&](const std::string& wanted, Tensor tensor) {
        std::string local = fmt::format("\x01{}_{}", wanted, scope.values.size());
        const ValueName name{scope.prefix + wanted, false};
        define(local, scope.model.builder().add_constant(name, std::move(tensor), false), scope);
        return local;
      }};
  return naming_node(node, scope.model, [&] {
    return upgrade_node(node, opset, scope.model.facts.target_opsets.at(""), services);
  });
}

/// The node, whose inputs get no name where they stand for nothing; what is known of them is left
/// out.
NodeInContext in_context(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                         ModelReading& model) {
  NodeInContext context{
      node, {}, nullptr, model.facts.target_opsets, [&model](const onnx::TensorProto& proto) {
        return model.file.tensor(proto);
      }};
  context.budget = &model.budget;
  context.where = model.where;
  *context.node.mutable_domain() = canonical_domain(node.domain());
  for (const char* domain : {collective_domain, own_domain})
    if (context.node.domain() == domain) context.opsets.try_emplace(domain, 1);
  context.schema = &schema_of(context.node, context.opsets, model.where);
  for (int i = 0; i < node.input_size(); ++i)
    if (inputs[static_cast<std::size_t>(i)] == no_value) context.node.mutable_input(i)->clear();
  return context;
}

/// Whether the operator is to be replaced by the body that ONNX defines it by.
bool is_inlined(const NodeInContext& context, const ModelReading& model) {
  return model.options.is_native && context.node.domain() != collective_domain &&
         !model.options.is_native(context.node.domain(), context.node.op_type());
}

using Inputs = std::vector<ValueId>;

/// What the node's first output is, if the node can go.
using Elide = std::optional<ValueId> (*)(const onnx::NodeProto& node, const Inputs& inputs,
                                         Scope& scope);

std::optional<ValueId> hold_constant(const onnx::NodeProto& node, const Inputs&, Scope& scope) {
  return scope.model.builder().add_constant(scope.name_outside(node.output(0)),
                                            constant_of(node, scope.model.file), true);
}

std::optional<ValueId> pass_through(const onnx::NodeProto&, const Inputs& inputs, Scope&) {
  return inputs[0];
}

/// Whether a Dropout's third input is true, or may be in a run.
bool may_train(const Inputs& inputs, const ModelReading& model) {
  if (inputs.size() < 3 || inputs[2] == no_value) return false;
  const Value& training = model.builder().value(inputs[2]);
  if (!training.constant) return true;
  if (!training.constant->has_data() || training.constant->elements() == 0)
    fail("{}: the data of '{}' is absent, but the graph's structure depends on it", model.where,
         training.name);
  return constant_integers(training).front() != 0;
}

/// The input passes in inference. A mask that is read, or training, keeps the node.
std::optional<ValueId> pass_dropout(const onnx::NodeProto& node, const Inputs& inputs,
                                    Scope& scope) {
  const bool is_mask_read =
      node.output_size() > 1 && scope.model.facts.names_read.contains(node.output(1));
  const auto trains = [&] { return may_train(inputs, scope.model); };
  if (is_mask_read || naming_node(node, scope.model, trains)) return std::nullopt;
  return inputs[0];
}

/// Defines the output of a node that computes nothing, so that no node is left of it: Constant,
/// Identity, and Dropout in inference. False for other nodes.
bool elide(const onnx::NodeProto& node, const Inputs& inputs, Scope& scope) {
  static const std::map<std::string_view, Elide> table = {
      {"Constant", hold_constant}, {"Identity", pass_through}, {"Dropout", pass_dropout}};
  const auto found = table.find(node.op_type());
  if (!canonical_domain(node.domain()).empty() || found == table.end()) return false;
  const auto output = found->second(node, inputs, scope);
  if (output == no_value) fail("{}: {}: its input is left out", scope.model.where, describe(node));
  if (output) define(node.output(0), *output, scope);
  return output.has_value();
}

void define_folded(const onnx::NodeProto& node, std::vector<Tensor> tensors, Scope& scope) {
  auto tensor = tensors.begin();
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    const ValueName name = scope.name_outside(output);
    define(output, scope.model.builder().add_constant(name, std::move(*tensor++), false), scope);
  }
}

/// Integers among the inputs that are no constants are what an output's shape may depend on.
void check_shapes(const onnx::NodeProto& node, const Inputs& inputs,
                  const std::vector<OutputType>& outputs, const ModelReading& model) {
  for (int o = 0; o < node.output_size(); ++o) {
    const OutputType& output = outputs[static_cast<std::size_t>(o)];
    if (node.output(o).empty() || (output.type != DataType::undefined && output.shape)) continue;
    std::vector<std::string> suspects;
    for (const ValueId id : inputs) {
      if (id == no_value || model.builder().is_constant(id)) continue;
      const Value& input = model.builder().value(id);
      if (input.type == DataType::int64 || input.type == DataType::int32)
        suspects.push_back(input.name);
    }
    throw UnknownShape(fmt::format(
        "{}: {}: the shape of its output '{}' is not known before the run, but autopar needs "
        "static shapes{}",
        model.where, describe(node), node.output(o),
        suspects.empty() ? ""
                         : fmt::format("; it depends on the values of '{}': give a model input's "
                                       "with --constant",
                                       fmt::join(suspects, "', '"))));
  }
}

/// Adds the node to the graph.
void add_node(const onnx::NodeProto& node, Node converted, const std::vector<OutputType>& outputs,
              Scope& scope) {
  ModelReading& model = scope.model;
  if (model.folding() == Folding::of_everything)
    fail("{}: no kernel of the host computes {}", model.where, describe(node));
  while (!converted.inputs.empty() && converted.inputs.back() == no_value)
    converted.inputs.pop_back();
  check_shapes(node, converted.inputs, outputs, model);
  for (int o = 0; o < node.output_size(); ++o) {
    const auto& [type, shape] = outputs[static_cast<std::size_t>(o)];
    const std::string& name = node.output(o);
    converted.outputs.push_back(
        name.empty() ? no_value
                     : model.builder().add_value(scope.name_outside(name), type, *shape));
  }
  define_outputs(node, converted.outputs, scope);
  model.builder().add_node(std::move(converted));
}

/// Shapes of the inputs, and the integers of short constants, which may be shapes.
std::vector<Shape> shapes_given_to(const NodeInContext& context) {
  constexpr std::int64_t most_extents = 16;
  std::vector<Shape> shapes;
  for (const Value* value : context.inputs) {
    if (value == nullptr) continue;
    shapes.push_back(value->shape);
    const bool has_integers = value->type == DataType::int64 || value->type == DataType::int32;
    if (value->constant && value->constant->has_data() && has_integers &&
        value->constant->elements() <= most_extents)
      shapes.push_back(value->constant->to_int64s());
  }
  return shapes;
}

/// Takes the step, and notes what the node was given where it throws an Error. That a shape depends
/// on values is nobody's fault.
template <typename Step>
auto noting_refusal(const NodeInContext& context, ModelReading& model, const Step& step) {
  try {
    return step();
  } catch (const UnknownShape&) {
    throw;
  } catch (const Error&) {
    model.note_refusal(shapes_given_to(context));
    throw;
  }
}

/// Refuses a node that would be read, but not run, with what is assumed.
void check_limits(const NodeInContext& context, ModelReading& model) {
  if (!model.has_assumed_extents) return;
  ++model.nodes_read;
  const auto limit = find_broken_limit(context);
  if (!limit) return;
  model.note_refusal({{limit->needed}, {limit->rows}});
  fail("{}: {}: it reads row {} of '{}', which has {}; bind the model's extents with --shape",
       model.where, describe(context.node), limit->needed, limit->table, limit->rows);
}

/// What is in the file itself grows with the file.
void count_node(const onnx::NodeProto& node, Scope& scope) {
  if (scope.nesting > 0) scope.model.budget.take_node([&] { return place_of(node, scope.model); });
}

void import_uncounted(const onnx::NodeProto& node, Scope& scope) {
  ModelReading& model = scope.model;
  Inputs inputs = find_inputs(node, scope);
  NodeInContext context = in_context(node, inputs, model);
  if (elide(node, inputs, scope)) return;
  model.budget.check_outputs(node.output_size(), [&] { return place_of(node, model); });
  for (const ValueId id : inputs)
    context.inputs.push_back(id == no_value ? nullptr : &tensor_value(id, node, model));
  const auto body = noting_refusal(context, model, [&] {
    return naming_node(context.node, model, [&] {
      check_operand_forms(context);
      return contrib_function_body(context);
    });
  });
  if (body) check_limits(context, model);
  if (body) return inline_contrib_body(node, *body, scope);
  if (has_nested_graph(node)) {  // a function of functions
    if (const auto definition = schema_function_body(context))
      return inline_call(node, *definition, scope);
    fail("{}: {} runs a nested graph, which is not supported; export the model without it",
         model.where, describe(node));
  }
  const auto outputs =
      noting_refusal(context, model, [&] { return infer_outputs(context, model.where); });
  check_limits(context, model);
  Node converted = convert_node(context.node, model.file);
  converted.name = scope.prefix + node.name();
  std::vector<bool> is_weight;
  for (const ValueId id : inputs) is_weight.push_back(model.builder().is_weight_matrix(id));
  auto folded = noting_refusal(context, model, [&] {
    return fold(context, converted, outputs, is_weight, model.options.evaluate, model.folding());
  });
  if (folded) return define_folded(node, std::move(*folded), scope);
  if (is_inlined(context, model))
    if (const auto definition = schema_function_body(context))
      return inline_call(node, *definition, scope);
  converted.inputs = std::move(inputs);
  // A collective's second input, `after`, tells what the order of nodes tells here.
  if (converted.domain == collective_domain) converted.inputs.resize(1, no_value);
  add_node(node, std::move(converted), outputs, scope);
}

}  // namespace

void import_node(const onnx::NodeProto& node, Scope& scope) {
  note_work();
  count_node(node, scope);
  const bool is_of_library =
      find_library_operator(canonical_domain(node.domain()), node.op_type()) != nullptr;
  const auto* function = is_of_library ? nullptr : find_function(node, scope.model.facts);
  if (function != nullptr) {
    FunctionBody body = local_function_body(node, *function);
    body.opsets.try_emplace("", scope.model.facts.target_opsets.at(""));
    return inline_call(node, body, scope);
  }
  if (!canonical_domain(node.domain()).empty()) return import_upgraded(node, scope);
  const auto opset = scope.opsets.find("");
  if (opset == scope.opsets.end())
    fail("{}: {} uses ONNX's own domain, whose opset the model does not import", scope.model.where,
         describe(node));
  if (read_control_flow(node, opset->second, scope)) return;
  for (const auto& each : upgraded(node, opset->second, scope)) import_upgraded(each, scope);
}

void import_upgraded(const onnx::NodeProto& node, Scope& scope) {
  import_uncounted(node, scope);
  ++scope.model.nodes_read;
}

}  // namespace autopar::graph
