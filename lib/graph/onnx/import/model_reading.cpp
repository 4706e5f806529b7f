#include "graph/onnx/import/model_reading.h"

#include "graph/loop_body.h"
#include "graph/onnx/opset_upgrade.h"

namespace autopar::graph {
namespace {

std::string function_key(const std::string& domain, const std::string& name,
                         const std::string& overload) {
  return canonical_domain(domain) + "::" + name + "::" + overload;
}

}  // namespace

std::optional<ScopedValue> Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->parent)
    if (const auto found = scope->values.find(name); found != scope->values.end())
      return ScopedValue{found->second, scope->depth};
  return std::nullopt;
}

ValueName Scope::name_outside(const std::string& name) const {
  if (prefix.empty()) return {name, true};
  const auto found = outer_names.find(name);
  return found != outer_names.end() ? found->second : ValueName{prefix + name, false};
}

ModelFacts facts_of(const ModelFile& file) {
  ModelFacts facts{file.opsets(), {}, {}};
  facts.target_opsets[""] = target_opset(file.model());
  const auto collect = [&](const auto& nodes) {
    for (const auto& node : nodes)
      for (const std::string_view name : names_read(node)) facts.names_read.emplace(name);
  };
  collect(file.model().graph().node());
  for (const auto& output : file.model().graph().output()) facts.names_read.insert(output.name());
  for (const auto& function : file.model().functions()) {
    collect(function.node());
    facts.names_read.insert(function.output().begin(), function.output().end());
    facts.functions[function_key(function.domain(), function.name(), function.overload())] =
        &function;
  }
  return facts;
}

const onnx::FunctionProto* find_function(const onnx::NodeProto& call, const ModelFacts& facts) {
  const auto found =
      facts.functions.find(function_key(call.domain(), call.op_type(), call.overload()));
  return found == facts.functions.end() ? nullptr : found->second;
}

std::map<std::string, std::int64_t> used_opsets(const Graph& graph, const ModelFacts& facts) {
  std::map<std::string, std::int64_t> used{{"", facts.target_opsets.at("")}};
  for (const Node& node : graph.nodes) {
    const auto found = facts.target_opsets.find(node.domain);
    used[node.domain] = found == facts.target_opsets.end() ? 1 : found->second;
    if (node.body) used.merge(used_opsets(node.body->graph, facts));
  }
  return used;
}

std::string place_of(const onnx::NodeProto& node, const ModelReading& model) {
  return fmt::format("{}: {}", model.where, describe(node));
}

std::string prefix_inside(const onnx::NodeProto& node, const Scope& scope) {
  return fmt::format("{}{}/", scope.prefix, node.name().empty() ? node.op_type() : node.name());
}

void define(const std::string& name, ValueId id, Scope& scope) {
  if (!scope.values.emplace(name, id).second)
    fail("{}: the value '{}' is made more than once", scope.model.where,
         scope.name_outside(name).text);
}

void define_outputs(const onnx::NodeProto& node, const std::vector<ValueId>& outputs,
                    Scope& scope) {
  for (int o = 0; o < node.output_size(); ++o)
    if (!node.output(o).empty())
      define(node.output(o), outputs.at(static_cast<std::size_t>(o)), scope);
}

void add_initializers(const onnx::GraphProto& proto, Scope& scope) {
  GraphBuilder& builder = scope.model.frames.builder(scope.depth);
  for (const auto& initializer : proto.initializer()) {
    const ValueId id = builder.add_constant(scope.name_outside(initializer.name()),
                                            scope.model.file.tensor(initializer), true);
    define(initializer.name(), id, scope);
  }
}

ValueId find_value(const std::string& name, const onnx::NodeProto& reader, const Scope& scope) {
  const auto found = scope.find(name);
  if (!found)
    fail("{}: {} reads '{}', which no input, initializer or node makes", scope.model.where,
         describe(reader), name);
  return scope.model.frames.bring_in(found->id, found->depth);
}

std::vector<ValueId> find_inputs(const onnx::NodeProto& node, const Scope& scope) {
  std::vector<ValueId> inputs;
  for (const std::string& name : node.input())
    inputs.push_back(name.empty() ? no_value : find_value(name, node, scope));
  return inputs;
}

const Value& tensor_value(ValueId id, const onnx::NodeProto& reader, const ModelReading& model) {
  if (Sequences::is_sequence(id))
    fail("{}: {} reads a sequence, which only operators on sequences can", model.where,
         describe(reader));
  if (id == no_value) fail("{}: {} reads a value that is left out", model.where, describe(reader));
  return model.builder().value(id);
}

}  // namespace autopar::graph
