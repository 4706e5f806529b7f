#include "graph/onnx/node_importer.h"

#include <algorithm>

#include "graph/contrib/microsoft_operators.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/control_flow.h"
#include "graph/onnx/node_conversion.h"
#include "graph/onnx/opset_upgrade.h"
#include "graph/onnx/sequence_operators.h"
#include "graph/onnx/topological_order.h"
#include "graph/onnx/unknown_shape.h"
#include "graph/operators/library_operator.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

constexpr int deepest_calls = 64;

/// One level more while it lives.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

std::string function_key(const std::string& domain, const std::string& name,
                         const std::string& overload) {
  return canonical_domain(domain) + "::" + name + "::" + overload;
}

bool has_nested_graph(const onnx::NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

using ReadSpecial = std::vector<ValueId> (*)(const onnx::NodeProto& node,
                                             const std::vector<ValueId>& inputs, std::int64_t opset,
                                             const ControlFlowServices& services);

ReadSpecial reader_of(const std::string& op_type) {
  static const std::map<std::string_view, ReadSpecial> table = {
      {"If", read_if}, {"Loop", read_loop}, {"Scan", read_scan}};
  const auto found = table.find(op_type);
  return found == table.end() ? find_sequence_operator(op_type) : found->second;
}

}  // namespace

NodeImporter::NodeImporter(ModelFile& file, const ImportOptions& options, Folding folding)
    : file_(file), options_(options), folding_(folding), where_(file.path().string()) {
  target_opsets_ = file.opsets();
  target_opsets_[""] = target_opset(file.model());
}

bool NodeImporter::is_local_function(const onnx::NodeProto& node) const {
  return functions_.contains(function_key(node.domain(), node.op_type(), node.overload()));
}

void NodeImporter::collect_model_facts(const onnx::GraphProto& proto) {
  for (const auto& input : proto.input()) builder().reserve(input.name());
  for (const auto& initializer : proto.initializer()) builder().reserve(initializer.name());
  const auto collect = [this](const NodeList& nodes) {
    for (const auto& node : nodes)
      for (const std::string_view name : names_read(node)) names_read_.emplace(name);
  };
  collect(proto.node());
  for (const auto& node : proto.node())
    for (const auto& output : node.output()) builder().reserve(output);
  for (const auto& output : proto.output()) names_read_.insert(output.name());
  for (const auto& function : file_.model().functions()) {
    collect(function.node());
    names_read_.insert(function.output().begin(), function.output().end());
    functions_[function_key(function.domain(), function.name(), function.overload())] = &function;
  }
}

void NodeImporter::add_initializers(const onnx::GraphProto& proto, Scope& scope) {
  for (const auto& initializer : proto.initializer())
    bind(
        scope, initializer.name(),
        frames_.builder(scope.depth)
            .add_constant(scope.name_outside(initializer.name()), file_.tensor(initializer), true));
}

void NodeImporter::bind(Scope& scope, const std::string& name, ValueId id) {
  if (!scope.values.emplace(name, id).second)
    fail("{}: the value '{}' is made more than once", where_, scope.name_outside(name).text);
}

void NodeImporter::import_node(const onnx::NodeProto& node, Scope& scope) {
  const auto function =
      functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
  const bool is_of_library =
      find_library_operator(canonical_domain(node.domain()), node.op_type()) != nullptr;
  if (function != functions_.end() && !is_of_library)
    return call(node, local_body(node, *function->second), scope);
  if (!canonical_domain(node.domain()).empty()) return import_upgraded(node, scope);
  const auto opset = scope.opsets.find("");
  if (opset == scope.opsets.end())
    fail("{}: {} uses ONNX's own domain, whose opset the model does not import", where_,
         describe(node));
  if (read_special(node, opset->second, scope)) return;
  const UpgradeServices services{
      [&](const std::string& input) -> const Value& {
        return tensor_value(lookup(input, node, scope), node);
      },
      [&](const std::string& wanted, Tensor tensor) {
        std::string local = fmt::format("\x01{}_{}", wanted, helper_constants_++);
        bind(scope, local,
             builder().add_constant({scope.prefix + wanted, false}, std::move(tensor), false));
        return local;
      }};
  for (const auto& upgraded : upgrade_node(node, opset->second, target_opsets_[""], services))
    import_upgraded(upgraded, scope);
}

FunctionBody NodeImporter::local_body(const onnx::NodeProto& node,
                                      const onnx::FunctionProto& function) {
  FunctionBody body = local_function_body(node, function);
  body.opsets.try_emplace("", target_opsets_[""]);
  return body;
}

void NodeImporter::import_upgraded(const onnx::NodeProto& node, Scope& scope) {
  NodeInContext context{node, {}, nullptr, target_opsets_, [this](const onnx::TensorProto& proto) {
                          return file_.tensor(proto);
                        }};
  *context.node.mutable_domain() = canonical_domain(node.domain());
  for (const char* domain : {collective_domain, own_domain})
    if (context.node.domain() == domain) context.opsets.try_emplace(domain, 1);
  context.schema = &schema_of(context.node, context.opsets, where_);
  std::vector<ValueId> inputs;
  for (std::string& name : *context.node.mutable_input()) {
    inputs.push_back(name.empty() ? no_value : lookup(name, node, scope));
    if (inputs.back() == no_value) name.clear();
  }
  if (dissolve(node, inputs, scope)) return;
  for (const ValueId id : inputs)
    context.inputs.push_back(id == no_value ? nullptr : &tensor_value(id, node));
  if (auto body = microsoft_body(context)) return call(node, std::move(*body), scope);
  if (has_nested_graph(node)) {  // a function of functions
    if (auto body = schema_function_body(context)) return call(node, std::move(*body), scope);
    refuse_nested_graphs(node);
  }
  const auto outputs = infer_outputs(context, where_);
  Node converted = convert_node(context.node, file_);
  converted.name = scope.prefix + node.name();
  std::vector<bool> is_weight;
  for (const ValueId id : inputs) is_weight.push_back(builder().is_weight_matrix(id));
  if (auto folded = fold(context, converted, outputs, is_weight, options_.evaluate, folding()))
    return bind_constants(node, std::move(*folded), scope);
  if (is_inlined(context))
    if (auto body = schema_function_body(context)) return call(node, std::move(*body), scope);
  converted.inputs = std::move(inputs);
  emit(node, std::move(converted), outputs, scope);
}

std::optional<FunctionBody> NodeImporter::microsoft_body(const NodeInContext& context) const {
  try {
    return microsoft_function_body(context);
  } catch (const Error& error) {
    fail("{}: {}: {}", where_, describe(context.node), error.what());
  }
}

ValueId NodeImporter::lookup(const std::string& name, const onnx::NodeProto& reader,
                             const Scope& scope) {
  const auto found = scope.find(name);
  if (!found)
    fail("{}: {} reads '{}', which no input, initializer or node makes", where_, describe(reader),
         name);
  return frames_.bring_in(found->id, found->depth);
}

ValueId NodeImporter::model_output(const std::string& name, const Scope& scope) const {
  const ValueId id = scope.find(name).value().id;
  if (id <= no_value)
    fail(
        "{}: output '{}' is a sequence or an optional value, which is not supported: give the "
        "tensors in it as outputs",
        where_, name);
  return id;
}

const Value& NodeImporter::tensor_value(ValueId id, const onnx::NodeProto& reader) const {
  if (Sequences::is_sequence(id))
    fail("{}: {} reads a sequence, which only operators on sequences can", where_,
         describe(reader));
  if (id == no_value) fail("{}: {} reads a value that is left out", where_, describe(reader));
  return builder().value(id);
}

bool NodeImporter::is_inlined(const NodeInContext& context) const {
  return options_.is_native && context.node.domain() != collective_domain &&
         !options_.is_native(context.node.domain(), context.node.op_type());
}

void NodeImporter::bind_constants(const onnx::NodeProto& node, std::vector<Tensor> tensors,
                                  Scope& scope, bool from_file) {
  std::size_t next = 0;
  for (const auto& output : node.output())
    if (!output.empty())
      bind(scope, output,
           builder().add_constant(scope.name_outside(output), std::move(tensors[next++]),
                                  from_file));
}

void NodeImporter::emit(const onnx::NodeProto& node, Node converted,
                        const std::vector<InferredOutput>& outputs, Scope& scope) {
  if (folding() == Folding::of_everything)
    fail("{}: no kernel of the host computes {}", where_, describe(node));
  while (!converted.inputs.empty() && converted.inputs.back() == no_value)
    converted.inputs.pop_back();
  for (int o = 0; o < node.output_size(); ++o) {
    const InferredOutput& output = outputs[static_cast<std::size_t>(o)];
    if (!node.output(o).empty() && (output.type == DataType::undefined || !output.shape))
      refuse_without_shape(node, node.output(o), converted.inputs);
  }
  for (int o = 0; o < node.output_size(); ++o) {
    const std::string& name = node.output(o);
    const InferredOutput& output = outputs[static_cast<std::size_t>(o)];
    if (name.empty()) {
      converted.outputs.push_back(no_value);
      continue;
    }
    const ValueId id = builder().add_value(scope.name_outside(name), output.type, *output.shape);
    converted.outputs.push_back(id);
    bind(scope, name, id);
  }
  builder().add_node(std::move(converted));
}

bool NodeImporter::dissolve(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                            Scope& scope) {
  using Dissolve =
      bool (NodeImporter::*)(const onnx::NodeProto&, const std::vector<ValueId>&, Scope&);
  static const std::map<std::string_view, Dissolve> table = {
      {"Constant", &NodeImporter::take_constant},
      {"Identity", &NodeImporter::pass_through},
      {"Dropout", &NodeImporter::pass_dropout},
  };
  if (!canonical_domain(node.domain()).empty()) return false;
  const auto found = table.find(node.op_type());
  return found != table.end() && (this->*found->second)(node, inputs, scope);
}

bool NodeImporter::take_constant(const onnx::NodeProto& node, const std::vector<ValueId>&,
                                 Scope& scope) {
  bind_constants(node, {constant_of(node, file_)}, scope, true);
  return true;
}

bool NodeImporter::pass_through(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                                Scope& scope) {
  bind(scope, node.output(0), inputs[0]);
  return true;
}

bool NodeImporter::pass_dropout(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                                Scope& scope) {
  const bool mask_is_read = node.output_size() > 1 && names_read_.contains(node.output(1));
  const bool may_train = inputs.size() > 2 && inputs[2] != no_value &&
                         (!builder().is_constant(inputs[2]) || constant_ints(inputs[2]).at(0) != 0);
  if (mask_is_read || may_train) return false;
  return pass_through(node, inputs, scope);
}

bool NodeImporter::read_special(const onnx::NodeProto& node, std::int64_t opset, Scope& scope) {
  const ReadSpecial read = reader_of(node.op_type());
  if (read == nullptr) return false;
  schema_of(node, {{"", opset}}, where_);
  const Deeper deeper(depth_);
  if (depth_ > deepest_calls)
    fail("{}: {} nests graphs more than {} deep", where_, describe(node), deepest_calls);
  std::vector<ValueId> inputs;
  for (const std::string& name : node.input())
    inputs.push_back(name.empty() ? no_value : lookup(name, node, scope));
  std::map<const onnx::GraphProto*, Scope> shared;
  const ControlFlowServices services = control_flow_services(node, scope, shared);
  std::vector<ValueId> outputs;
  try {
    outputs = read(node, inputs, opset, services);
  } catch (const UnknownShape& error) {
    if (std::string_view(error.what()).starts_with(where_)) throw;
    throw UnknownShape(fmt::format("{}: {}: {}", where_, describe(node), error.what()));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where_)) throw;
    fail("{}: {}: {}", where_, describe(node), error.what());
  }
  for (int o = 0; o < node.output_size(); ++o)
    if (!node.output(o).empty())
      bind(scope, node.output(o), outputs.at(static_cast<std::size_t>(o)));
  return true;
}

ControlFlowServices NodeImporter::control_flow_services(
    const onnx::NodeProto& node, Scope& scope, std::map<const onnx::GraphProto*, Scope>& shared) {
  const std::string prefix =
      fmt::format("{}{}/", scope.prefix, node.name().empty() ? node.op_type() : node.name());
  const auto inner_scope = [this, &scope](const Scope& parent, std::string inner_prefix) {
    Scope inner;
    inner.depth = frames_.depth();
    inner.parent = &parent;
    inner.opsets = scope.opsets;
    inner.prefix = std::move(inner_prefix);
    return inner;
  };
  const int around = frames_.depth();
  return {
      [this, &node](ValueId id) -> const Value& { return tensor_value(id, node); },
      [this, &node, &scope, &shared, prefix, inner_scope, around](
          const onnx::GraphProto& body, const std::vector<ValueId>& inputs, int round) {
        const auto [common, is_new] = shared.try_emplace(&body, inner_scope(scope, prefix));
        common->second.depth = around;
        if (is_new) add_initializers(body, common->second);
        Scope inner =
            inner_scope(common->second, round < 0 ? prefix : fmt::format("{}{}/", prefix, round));
        for (std::size_t i = 0; i < inputs.size(); ++i)
          bind(inner, body.input(static_cast<int>(i)).name(), inputs[i]);
        for (const auto& each : body.node()) import_node(each, inner);
        std::vector<ValueId> outputs;
        for (const auto& output : body.output())
          outputs.push_back(lookup(output.name(), node, inner));
        return outputs;
      },
      [this, &node, &scope, prefix](const std::string& op_type, const std::vector<ValueId>& inputs,
                                    const AddedAttributes& attributes) {
        Scope local;
        local.depth = frames_.depth();
        local.parent = &scope;
        local.opsets = scope.opsets;
        local.prefix = prefix;
        onnx::NodeProto added;
        added.set_op_type(op_type);
        for (const ValueId id : inputs) {
          const std::string name = fmt::format("\x01{}", id);
          local.values.try_emplace(name, id);
          added.add_input(name);
        }
        for (const auto& [name, value] : attributes) {
          auto& attribute = *added.add_attribute();
          attribute.set_name(name);
          if (const auto* number = std::get_if<std::int64_t>(&value)) {
            attribute.set_type(onnx::AttributeProto::INT);
            attribute.set_i(*number);
          } else {
            const auto& numbers = std::get<std::vector<std::int64_t>>(value);
            attribute.set_type(onnx::AttributeProto::INTS);
            attribute.mutable_ints()->Add(numbers.begin(), numbers.end());
          }
        }
        added.add_output(op_type);
        import_upgraded(added, local);
        return lookup(op_type, node, local);
      },
      [this, prefix](Tensor tensor) {
        return builder().add_constant({prefix + "constant", false}, std::move(tensor), false);
      },
      [this] { return builder().nodes(); },
      sequences_,
      options_.unrolls,
      frames_,
      [this, &node, &scope](std::vector<ValueId> inputs, LoopBody body,
                            const std::vector<LoopOutput>& outputs) {
        return add_loop(node, scope, std::move(inputs), std::move(body), outputs);
      }};
}

std::vector<ValueId> NodeImporter::add_loop(const onnx::NodeProto& node, const Scope& scope,
                                            std::vector<ValueId> inputs, LoopBody body,
                                            const std::vector<LoopOutput>& outputs) {
  if (folding() == Folding::of_everything)
    fail("it makes more than {} rounds, which is not supported behind shapes that only a run tells",
         most_rounds);
  Node loop;
  loop.name = scope.prefix + node.name();
  loop.op_type = "Loop";
  loop.inputs = std::move(inputs);
  for (const LoopOutput& output : outputs)
    loop.outputs.push_back(builder().add_value(
        {scope.prefix + (node.name().empty() ? "Loop" : node.name()) + "/last", false}, output.type,
        output.shape));
  body.graph.name = loop.name.empty() ? "body" : loop.name;
  body.graph.opsets = target_opsets_;
  loop.body = std::make_shared<const LoopBody>(std::move(body));
  const std::vector<ValueId> made = loop.outputs;
  builder().add_node(std::move(loop));
  return made;
}

std::vector<std::int64_t> NodeImporter::constant_ints(ValueId id) const {
  const Value& value = builder().value(id);
  if (!value.constant->has_data() || value.constant->elements() == 0)
    fail("{}: the data of '{}' is absent, but the graph's structure depends on it", where_,
         value.name);
  return value.constant->to_int64s();
}

void NodeImporter::refuse_without_shape(const onnx::NodeProto& node, const std::string& output,
                                        const std::vector<ValueId>& inputs) const {
  std::vector<const Value*> values;
  for (const ValueId id : inputs) values.push_back(id == no_value ? nullptr : &builder().value(id));
  fail_without_shape(fmt::format("{}: {}", where_, describe(node)), output, values);
}

void NodeImporter::refuse_nested_graphs(const onnx::NodeProto& node) const {
  fail("{}: {} runs a nested graph, which is not supported; export the model without it", where_,
       describe(node));
}

template <typename Prepare, typename OutputName>
void NodeImporter::import_body(const NodeList& nodes, const onnx::NodeProto& caller, Scope& scope,
                               Scope& inner, const Prepare& prepare,
                               const OutputName& output_name) {
  const Deeper deeper(depth_);
  if (depth_ > deepest_calls)
    fail("{}: {} calls functions more than {} deep: does one call itself?", where_,
         describe(caller), deepest_calls);
  const std::string name = caller.name().empty() ? caller.op_type() : caller.name();
  inner.prefix = fmt::format("{}{}/", scope.prefix, name);
  for (int o = 0; o < caller.output_size(); ++o)
    if (!caller.output(o).empty())
      inner.outer_names[output_name(o)] = scope.name_outside(caller.output(o));
  prepare();
  for (const auto& node : nodes) import_node(node, inner);
  for (int o = 0; o < caller.output_size(); ++o)
    if (!caller.output(o).empty())
      bind(scope, caller.output(o), lookup(output_name(o), caller, inner));
}

void NodeImporter::call(const onnx::NodeProto& node, FunctionBody body, Scope& scope) {
  const onnx::FunctionProto& function = body.function;
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    fail("{}: {} gives its function more inputs or outputs than it has", where_, describe(node));
  Scope inner;
  inner.depth = frames_.depth();
  inner.opsets = std::move(body.opsets);
  import_body(
      function.node(), node, scope, inner,
      [&] {
        for (int i = 0; i < function.input_size(); ++i) {
          const bool given = i < node.input_size() && !node.input(i).empty();
          bind(inner, function.input(i), given ? lookup(node.input(i), node, scope) : no_value);
        }
      },
      [&](int o) { return function.output(o); });
}

std::map<std::string, std::int64_t> NodeImporter::used_opsets(const Graph& graph) const {
  std::map<std::string, std::int64_t> used{{"", target_opsets_.at("")}};
  for (const Node& node : graph.nodes) {
    const auto found = target_opsets_.find(node.domain);
    used[node.domain] = found == target_opsets_.end() ? 1 : found->second;
    if (node.body) used.merge(used_opsets(node.body->graph));
  }
  return used;
}

}  // namespace autopar::graph
