#include "graph/onnx_import.h"

#include <algorithm>
#include <unordered_set>

#include "graph/body_frames.h"
#include "graph/collective_schemas.h"
#include "graph/constant_folding.h"
#include "graph/control_flow.h"
#include "graph/function_body.h"
#include "graph/graph_builder.h"
#include "graph/import_with_tail.h"
#include "graph/input_shapes.h"
#include "graph/microsoft_operators.h"
#include "graph/model_file.h"
#include "graph/node_conversion.h"
#include "graph/onnx_interpreter.h"
#include "graph/operator_advice.h"
#include "graph/opset_upgrade.h"
#include "graph/own_operators.h"
#include "graph/problems.h"
#include "graph/refused_nodes.h"
#include "graph/sequence_operators.h"
#include "graph/state.h"
#include "graph/tail_nodes.h"
#include "graph/topological_order.h"

namespace autopar::graph {
namespace {

using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

constexpr int deepest_calls = 64;

/// What becomes of a node whose outputs have shapes that only a run tells.
enum class OfUnknownShape {
  refused,  ///< as an error
  left,     ///< to the tail
};

/// A function of the model has such a node in it: only nodes of the model's own graph are left.
struct FunctionHidesTail {};

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

/// Walks a model's nodes in order, as an interpreter would, and builds the graph as it goes. For
/// each node: upgrade its form, infer its outputs, and fold it into constants, inline it where it
/// is a function without a kernel, or add it. Functions and branches are walked in scopes of their
/// own.
class Importer {
 public:
  Importer(ModelFile& file, const ImportOptions& options, OfUnknownShape unknown, Folding folding)
      : file_(file),
        options_(options),
        unknown_(unknown),
        folding_(folding),
        where_(file.path().string()) {}

  void check_options() const { check_options(file_.model().graph()); }

  Imported run() {
    Scope scope;
    walk(scope);
    const onnx::GraphProto& proto = file_.model().graph();
    std::unordered_set<std::string> names;
    for (const auto& output : proto.output()) names.insert(output.name());
    tail_.keep_what_makes(std::move(names));
    std::vector<std::pair<std::string, ValueId>> outputs;
    for (const auto& output : proto.output())
      if (!tail_.makes(output.name()))
        outputs.emplace_back(output.name(), model_output(output.name(), scope));
    const TailReads reads = reads_of_tail(scope, outputs);
    Imported imported;
    Graph& graph = imported.graph;
    graph = builder().finish(outputs);
    graph.name = proto.name();
    graph.opsets = used_opsets(graph);
    if (!tail_.empty()) imported.tail = make_tail(file_, tail_, reads, graph);
    remove_dead_nodes(graph);
    check_invariants(graph);
    if (!tail_.empty()) check_tail(tail_, *imported.tail, graph);
    return imported;
  }

  /// The model's outputs by name, where everything folds.
  std::map<std::string, Tensor> interpret() {
    Scope scope;
    walk(scope);
    std::map<std::string, Tensor> outputs;
    for (const auto& output : file_.model().graph().output())
      outputs.emplace(output.name(), *builder().value(model_output(output.name(), scope)).constant);
    return outputs;
  }

 private:
  void walk(Scope& scope) {
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
    target_opsets_ = file_.opsets();
    target_opsets_[""] = target_opset(file_.model());
    collect_model_facts(proto);

    scope.opsets = file_.opsets();
    scope.opsets.try_emplace("", target_opsets_[""]);
    const BoundInputs bound = add_inputs(proto, scope);
    add_initializers(proto, scope);
    if (folding_ == Folding::of_everything) {
      for (const auto* node : order) interpret_node(*node, scope);
      return;
    }
    RefusedNodes refused(where_);
    for (const auto* node : order) refused.try_node(*node, [&] { import_or_leave(*node, scope); });
    warn_of_contradicted_outputs(proto, bound, [&](const std::string& output) {
      const auto found = scope.find(output);
      return found && found->id > no_value ? std::optional(builder().value(found->id).shape)
                                           : std::nullopt;
    });
    refused.throw_if_any();
  }

  void interpret_node(const onnx::NodeProto& node, Scope& scope) {
    try {
      import_node(node, scope);
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(where_)) throw;
      fail("{}: {}: {}", where_, describe(node), error.what());
    }
  }

  /// Imports a node of the model's own graph, or leaves it to the tail.
  void import_or_leave(const onnx::NodeProto& node, Scope& scope) {
    if (unknown_ == OfUnknownShape::refused) return import_node(node, scope);
    if (tail_.follows(node)) return tail_.add(node);
    try {
      import_node(node, scope);
    } catch (const UnknownShape& reason) {
      if (is_local_function(node) && !file_.is_inlined()) throw FunctionHidesTail{};
      for (const std::string& output : node.output()) scope.values.erase(output);
      tail_.add(node, reason.what());
    }
  }

  /// What the tail reads that is made before it; values that it reads become outputs, unless they
  /// are inputs, constants or outputs already.
  TailReads reads_of_tail(const Scope& scope,
                          std::vector<std::pair<std::string, ValueId>>& outputs) const {
    TailReads reads;
    std::unordered_set<ValueId> known;
    for (const auto& [name, id] : outputs) known.insert(id);
    for (const std::string& name : tail_.reads()) {
      const ValueId id = scope.find(name).value().id;
      if (Sequences::is_sequence(id))
        fail(
            "{}: the sequence '{}' is made before shapes that only a run tells and read behind "
            "them, which is not supported: take it apart before",
            where_, name);
      reads.emplace_back(name, id);
      const bool is_made = !builder().is_constant(id) && !builder().is_input(id);
      if (is_made && known.insert(id).second) outputs.emplace_back(builder().value(id).name, id);
    }
    return reads;
  }

  bool is_local_function(const onnx::NodeProto& node) const {
    return functions_.contains(function_key(node.domain(), node.op_type(), node.overload()));
  }

  /// Names that belong to the model's values, names that are read, and functions.
  void collect_model_facts(const onnx::GraphProto& proto) {
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

  static std::string function_key(const std::string& domain, const std::string& name,
                                  const std::string& overload) {
    return canonical_domain(domain) + "::" + name + "::" + overload;
  }

  BoundInputs add_inputs(const onnx::GraphProto& proto, Scope& scope) {
    BoundInputs bound = check_options(proto);
    Problems problems;
    for (const auto* input : free_inputs(proto))
      problems.collect([&] { add_input(*input, bound.shapes.at(input->name()), scope); });
    problems.throw_if_any();
    return bound;
  }

  void add_input(const onnx::ValueInfoProto& input, const Shape& shape, Scope& scope) {
    const DataType type =
        data_type_from_proto(input.type().tensor_type().elem_type(), input.name());
    if (type == DataType::string)
      fail("{}: input '{}' holds strings, which are not supported: {}", where_, input.name(),
           advice_about_strings);
    const ValueName name{input.name(), true};
    const auto constant = options_.constants.find(input.name());
    if (constant == options_.constants.end())
      return bind(scope, input.name(), builder().add_input(name, type, shape));
    if (constant->second.type() != type)
      fail("--constant {}: the model's input is {}, not {}", input.name(), name_of(type),
           name_of(constant->second.type()));
    bind(scope, input.name(), builder().add_constant(name, constant->second, true));
  }

  /// All that is wrong with names and shapes at once.
  BoundInputs check_options(const onnx::GraphProto& proto) const {
    ShapeBindings bindings = options_.shapes;
    Problems problems;
    for (const auto& [name, tensor] : options_.constants) {
      if (std::ranges::find(proto.input(), name, &onnx::ValueInfoProto::name) ==
          proto.input().end())
        problems.add("--constant {} names no input of {}", name, where_);
      else
        bindings.insert_or_assign(name, tensor.shape());
    }
    StateNames names;
    for (const auto& output : proto.output()) names.outputs.push_back(output.name());
    for (const auto* input : free_inputs(proto)) names.inputs.push_back(input->name());
    for (const std::string& pattern : options_.loops)
      problems.collect([&] { match_state_names(names, pattern); });
    BoundInputs bound;
    problems.collect([&] { bound = bind_input_shapes(proto, bindings, where_); });
    problems.throw_if_any();
    return bound;
  }

  void add_initializers(const onnx::GraphProto& proto, Scope& scope) {
    for (const auto& initializer : proto.initializer())
      bind(scope, initializer.name(),
           frames_.builder(scope.depth)
               .add_constant(scope.name_outside(initializer.name()), file_.tensor(initializer),
                             true));
  }

  void bind(Scope& scope, const std::string& name, ValueId id) {
    if (!scope.values.emplace(name, id).second)
      fail("{}: the value '{}' is made more than once", where_, scope.name_outside(name).text);
  }

  // --- nodes

  void import_node(const onnx::NodeProto& node, Scope& scope) {
    const auto function =
        functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
    if (function != functions_.end()) return call(node, local_body(node, *function->second), scope);
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

  FunctionBody local_body(const onnx::NodeProto& node, const onnx::FunctionProto& function) {
    FunctionBody body = local_function_body(node, function);
    body.opsets.try_emplace("", target_opsets_[""]);
    return body;
  }

  /// A node in the form of the target opset.
  void import_upgraded(const onnx::NodeProto& node, Scope& scope) {
    NodeInContext context{
        node, {}, nullptr, target_opsets_, [this](const onnx::TensorProto& proto) {
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
    if (auto folded = fold(context, converted, outputs, is_weight, options_.evaluate, folding_))
      return bind_constants(node, std::move(*folded), scope);
    if (is_inlined(context))
      if (auto body = schema_function_body(context)) return call(node, std::move(*body), scope);
    converted.inputs = std::move(inputs);
    emit(node, std::move(converted), outputs, scope);
  }

  std::optional<FunctionBody> microsoft_body(const NodeInContext& context) const {
    try {
      return microsoft_function_body(context);
    } catch (const Error& error) {
      fail("{}: {}: {}", where_, describe(context.node), error.what());
    }
  }

  /// no_value for a function's input that the caller left out.
  ValueId lookup(const std::string& name, const onnx::NodeProto& reader, const Scope& scope) {
    const auto found = scope.find(name);
    if (!found)
      fail("{}: {} reads '{}', which no input, initializer or node makes", where_, describe(reader),
           name);
    return frames_.bring_in(found->id, found->depth);
  }

  ValueId model_output(const std::string& name, const Scope& scope) const {
    const ValueId id = scope.find(name).value().id;
    if (id <= no_value)
      fail(
          "{}: output '{}' is a sequence or an optional value, which is not supported: give the "
          "tensors in it as outputs",
          where_, name);
    return id;
  }

  /// A value that is a tensor, for operators that know nothing else.
  const Value& tensor_value(ValueId id, const onnx::NodeProto& reader) const {
    if (Sequences::is_sequence(id))
      fail("{}: {} reads a sequence, which only operators on sequences can", where_,
           describe(reader));
    if (id == no_value) fail("{}: {} reads a value that is left out", where_, describe(reader));
    return builder().value(id);
  }

  GraphBuilder& builder() { return frames_.builder(); }
  const GraphBuilder& builder() const { return frames_.builder(); }

  bool is_inlined(const NodeInContext& context) const {
    return options_.is_native && context.node.domain() != collective_domain &&
           !options_.is_native(context.node.domain(), context.node.op_type());
  }

  void bind_constants(const onnx::NodeProto& node, std::vector<Tensor> tensors, Scope& scope,
                      bool from_file = false) {
    std::size_t next = 0;
    for (const auto& output : node.output())
      if (!output.empty())
        bind(scope, output,
             builder().add_constant(scope.name_outside(output), std::move(tensors[next++]),
                                    from_file));
  }

  void emit(const onnx::NodeProto& node, Node converted, const std::vector<InferredOutput>& outputs,
            Scope& scope) {
    if (folding_ == Folding::of_everything)
      fail("{}: no kernel of the host computes {}", where_, describe(node));
    while (!converted.inputs.empty() && converted.inputs.back() == no_value)
      converted.inputs.pop_back();
    for (int o = 0; o < node.output_size(); ++o) {
      const InferredOutput& output = outputs[static_cast<std::size_t>(o)];
      if (!node.output(o).empty() && (output.type == DataType::undefined || !output.shape))
        fail_without_shape(node, node.output(o), converted.inputs);
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

  [[noreturn]] void fail_without_shape(const onnx::NodeProto& node, const std::string& output,
                                       const std::vector<ValueId>& inputs) const {
    std::string suspects;
    for (const ValueId id : inputs) {
      if (id == no_value || builder().is_constant(id)) continue;
      const DataType type = builder().value(id).type;
      if (type == DataType::int64 || type == DataType::int32)
        suspects += (suspects.empty() ? "" : "', '") + builder().value(id).name;
    }
    throw UnknownShape(fmt::format(
        "{}: {}: the shape of its output '{}' is not known before the run, but autopar needs "
        "static shapes{}",
        where_, describe(node), output,
        suspects.empty() ? ""
                         : fmt::format("; it depends on the values of '{}': give a model input's "
                                       "with --constant",
                                       suspects)));
  }

  // --- nodes that are not there after import

  /// Binds the outputs of a node that computes nothing, if it is one.
  bool dissolve(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope) {
    using Dissolve =
        bool (Importer::*)(const onnx::NodeProto&, const std::vector<ValueId>&, Scope&);
    static const std::map<std::string_view, Dissolve> table = {
        {"Constant", &Importer::take_constant},
        {"Identity", &Importer::pass_through},
        {"Dropout", &Importer::pass_dropout},
    };
    if (!canonical_domain(node.domain()).empty()) return false;
    const auto found = table.find(node.op_type());
    return found != table.end() && (this->*found->second)(node, inputs, scope);
  }

  bool take_constant(const onnx::NodeProto& node, const std::vector<ValueId>&, Scope& scope) {
    bind_constants(node, {constant_of(node, file_)}, scope, true);
    return true;
  }

  bool pass_through(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope) {
    bind(scope, node.output(0), inputs[0]);
    return true;
  }

  /// In inference the input passes. A mask that somebody reads, or training, keeps the node.
  bool pass_dropout(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope) {
    const bool mask_is_read = node.output_size() > 1 && names_read_.contains(node.output(1));
    const bool may_train =
        inputs.size() > 2 && inputs[2] != no_value &&
        (!builder().is_constant(inputs[2]) || constant_ints(inputs[2]).at(0) != 0);
    if (mask_is_read || may_train) return false;
    return pass_through(node, inputs, scope);
  }

  // --- nested graphs

  using ReadSpecial = std::vector<ValueId> (*)(const onnx::NodeProto& node,
                                               const std::vector<ValueId>& inputs,
                                               std::int64_t opset,
                                               const ControlFlowServices& services);

  /// Null for most operators.
  static ReadSpecial reader_of(const std::string& op_type) {
    static const std::map<std::string_view, ReadSpecial> table = {
        {"If", read_if}, {"Loop", read_loop}, {"Scan", read_scan}};
    const auto found = table.find(op_type);
    return found == table.end() ? find_sequence_operator(op_type) : found->second;
  }

  /// Reads nodes with nested graphs into nodes without, but for loops that only the run ends, and
  /// what is done with sequences into what is done with their tensors; binds the outputs.
  bool read_special(const onnx::NodeProto& node, std::int64_t opset, Scope& scope) {
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

  /// `shared` has a scope for each nested graph: its initializers, which all rounds have in common.
  ControlFlowServices control_flow_services(const onnx::NodeProto& node, Scope& scope,
                                            std::map<const onnx::GraphProto*, Scope>& shared) {
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
    return {[this, &node](ValueId id) -> const Value& { return tensor_value(id, node); },
            [this, &node, &scope, &shared, prefix, inner_scope, around](
                const onnx::GraphProto& body, const std::vector<ValueId>& inputs, int round) {
              const auto [common, is_new] = shared.try_emplace(&body, inner_scope(scope, prefix));
              common->second.depth = around;
              if (is_new) add_initializers(body, common->second);
              Scope inner = inner_scope(common->second,
                                        round < 0 ? prefix : fmt::format("{}{}/", prefix, round));
              for (std::size_t i = 0; i < inputs.size(); ++i)
                bind(inner, body.input(static_cast<int>(i)).name(), inputs[i]);
              for (const auto& each : body.node()) import_node(each, inner);
              std::vector<ValueId> outputs;
              for (const auto& output : body.output())
                outputs.push_back(lookup(output.name(), node, inner));
              return outputs;
            },
            [this, &node, &scope, prefix](const std::string& op_type,
                                          const std::vector<ValueId>& inputs,
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

  std::vector<ValueId> add_loop(const onnx::NodeProto& node, const Scope& scope,
                                std::vector<ValueId> inputs, LoopBody body,
                                const std::vector<LoopOutput>& outputs) {
    Node loop;
    loop.name = scope.prefix + node.name();
    loop.op_type = "Loop";
    loop.inputs = std::move(inputs);
    for (const LoopOutput& output : outputs)
      loop.outputs.push_back(builder().add_value(
          {scope.prefix + (node.name().empty() ? "Loop" : node.name()) + "/last", false},
          output.type, output.shape));
    body.graph.name = loop.name.empty() ? "body" : loop.name;
    body.graph.opsets = target_opsets_;
    loop.body = std::make_shared<const LoopBody>(std::move(body));
    const std::vector<ValueId> made = loop.outputs;
    builder().add_node(std::move(loop));
    return made;
  }

  std::vector<std::int64_t> constant_ints(ValueId id) const {
    const Value& value = builder().value(id);
    if (!value.constant->has_data() || value.constant->elements() == 0)
      fail("{}: the data of '{}' is absent, but the graph's structure depends on it", where_,
           value.name);
    return value.constant->to_int64s();
  }

  static bool has_nested_graph(const onnx::NodeProto& node) {
    return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
      return attribute.has_g() || attribute.graphs_size() > 0;
    });
  }

  [[noreturn]] void refuse_nested_graphs(const onnx::NodeProto& node) const {
    fail("{}: {} runs a nested graph, which is not supported; export the model without it", where_,
         describe(node));
  }

  // --- functions

  void call(const onnx::NodeProto& node, FunctionBody body, Scope& scope) {
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

  /// Walks the nodes of a function or branch in `inner` and binds the caller's outputs to what the
  /// body's outputs (by index) are.
  template <typename Prepare, typename OutputName>
  void import_body(const NodeList& nodes, const onnx::NodeProto& caller, Scope& scope, Scope& inner,
                   const Prepare& prepare, const OutputName& output_name) {
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

  std::map<std::string, std::int64_t> used_opsets(const Graph& graph) const {
    std::map<std::string, std::int64_t> used{{"", target_opsets_.at("")}};
    for (const Node& node : graph.nodes) {
      const auto found = target_opsets_.find(node.domain);
      used[node.domain] = found == target_opsets_.end() ? 1 : found->second;
      if (node.body) used.merge(used_opsets(node.body->graph));
    }
    return used;
  }

  ModelFile& file_;
  const ImportOptions& options_;
  OfUnknownShape unknown_;
  Folding folding_;
  std::string where_;
  TailNodes tail_;
  Sequences sequences_;
  BodyFrames frames_{sequences_};
  std::map<std::string, std::int64_t> target_opsets_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_set<std::string> names_read_;
  int helper_constants_ = 0;
  int depth_ = 0;
};

}  // namespace

namespace {

void register_schemas() {
  register_collective_schemas();
  register_microsoft_schemas();
}

}  // namespace

Graph load_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  return Importer(model, options, OfUnknownShape::refused, Folding::of_small_constants).run().graph;
}

Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  const auto import = [&] {
    return Importer(model, options, OfUnknownShape::left, Folding::of_small_constants).run();
  };
  try {
    return import();
  } catch (const FunctionHidesTail&) {
    model.inline_functions();
    return import();
  }
}

OnnxInterpreter::OnnxInterpreter(const std::filesystem::path& file, Evaluator evaluate,
                                 IsNative is_native)
    : evaluate_(std::move(evaluate)), is_native_(std::move(is_native)) {
  register_schemas();
  file_ = std::make_unique<ModelFile>(file, /*weights_may_be_absent=*/false);
}
OnnxInterpreter::~OnnxInterpreter() = default;

std::map<std::string, Tensor> OnnxInterpreter::run(std::map<std::string, Tensor> inputs) const {
  ImportOptions options;
  options.evaluate = evaluate_;
  options.is_native = is_native_;
  options.constants = std::move(inputs);
  return Importer(*file_, options, OfUnknownShape::refused, Folding::of_everything).interpret();
}

void check_import_options(const std::filesystem::path& file, const ImportOptions& options) {
  ModelFile model(file, options.weights_may_be_absent);
  Importer(model, options, OfUnknownShape::refused, Folding::of_small_constants).check_options();
}

}  // namespace autopar::graph
