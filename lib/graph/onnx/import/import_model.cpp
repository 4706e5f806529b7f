#include <algorithm>
#include <span>

#include "base/problems.h"
#include "base/progress.h"
#include "graph/contrib/operator_table.h"
#include "graph/onnx/import/import_assuming.h"
#include "graph/onnx/import/import_node.h"
#include "graph/onnx/import/inlined_nodes.h"
#include "graph/onnx/import/input_shapes.h"
#include "graph/onnx/import/tail_nodes.h"
#include "graph/onnx/onnx_interpreter.h"
#include "graph/onnx/operator_advice.h"
#include "graph/onnx/tail_file.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

/// A function of the model has a node in it whose outputs have shapes that only a run tells: only
/// nodes of the model's own graph are left to the tail.
struct FunctionHidesTail {};

using Outputs = std::vector<std::pair<std::string, ValueId>>;

/// The names, each of which must be there and there once.
template <typename Ports>
void check_ports(const Ports& ports, std::string_view kind, const std::string& where) {
  std::unordered_set<std::string_view> names;
  for (const auto& port : ports) {
    if (port.name().empty()) fail("{}: an {} of the graph has no name", where, kind);
    if (!names.insert(port.name()).second)
      fail("{}: the graph's {} '{}' is listed twice", where, kind, port.name());
  }
}

/// Values are found by their names: inputs have one each, and so have outputs.
void check_names(const onnx::GraphProto& proto, const std::string& where) {
  check_ports(proto.output(), "output", where);
  check_ports(proto.input(), "input", where);
  for (const auto& initializer : proto.initializer())
    if (initializer.name().empty()) fail("{}: an initializer of the graph has no name", where);
}

/// The graph's nodes in the order in which they are read.
std::vector<const onnx::NodeProto*> checked_nodes(const onnx::GraphProto& proto,
                                                  const std::string& where) {
  // A stage that is not a pipeline's last may have no outputs but what it sends.
  const auto sends = [](const onnx::NodeProto& node) {
    return node.domain() == collective_domain && node.op_type() == "Send";
  };
  if (proto.output_size() == 0 && std::ranges::none_of(proto.node(), sends))
    fail("{}: the graph has no outputs", where);
  if (proto.sparse_initializer_size() > 0)
    fail("{}: initializer '{}' is sparse, which is not supported: export dense weights", where,
         proto.sparse_initializer(0).values().name());
  return topological_order(proto, where);
}

void add_input(const onnx::ValueInfoProto& input, const Shape& shape, Scope& scope) {
  ModelReading& model = scope.model;
  const DataType type = data_type_from_proto(input.type().tensor_type().elem_type(), input.name());
  if (type == DataType::string)
    fail("{}: input '{}' holds strings, which are not supported: {}", model.where, input.name(),
         advice_about_strings);
  const ValueName name{input.name(), true};
  const auto constant = model.options.constants.find(input.name());
  if (constant == model.options.constants.end())
    return define(input.name(), model.builder().add_input(name, type, shape), scope);
  if (constant->second.type() != type)
    fail("--constant {}: the model's input is {}, not {}", input.name(), name_of(type),
         name_of(constant->second.type()));
  define(input.name(), model.builder().add_constant(name, constant->second, true), scope);
}

void add_inputs(const onnx::GraphProto& proto, const BoundInputs& bound, Scope& scope) {
  scope.model.has_assumed_extents = !bound.assumed.empty();
  Problems problems;
  for (const auto* input : free_inputs(proto))
    problems.collect([&] { add_input(*input, bound.shapes.at(input->name()), scope); });
  problems.throw_if_any();
}

/// The scope of the model's own graph, whose values keep their names.
Scope model_scope(ModelReading& model) {
  const onnx::GraphProto& proto = model.file.model().graph();
  GraphBuilder& builder = model.builder();
  for (const auto& input : proto.input()) builder.reserve(input.name());
  for (const auto& initializer : proto.initializer()) builder.reserve(initializer.name());
  for (const auto& node : proto.node())
    for (const auto& output : node.output()) builder.reserve(output);
  Scope scope(model);
  scope.opsets = model.file.opsets();
  scope.opsets.try_emplace("", model.facts.target_opsets.at(""));
  return scope;
}

ValueId model_output(const std::string& name, const Scope& scope) {
  const ValueId id = scope.find(name).value().id;
  if (id <= no_value)
    fail(
        "{}: output '{}' is a sequence or an optional value, which is not supported: give the "
        "tensors in it as outputs",
        scope.model.where, name);
  return id;
}

/// Imports a node of the model's own graph, or leaves it to the tail.
void import_or_leave(const onnx::NodeProto& node, Scope& scope, TailNodes& tail) {
  if (tail.follows(node)) return tail.add(node);
  try {
    import_node(node, scope);
  } catch (const UnknownShape& reason) {
    if (find_function(node, scope.model.facts) != nullptr && !scope.model.file.is_inlined())
      throw FunctionHidesTail{};
    for (const std::string& output : node.output()) scope.values.erase(output);
    tail.add(node, reason.what());
  }
}

std::vector<ContradictedOutput> contradicted_outputs(const onnx::GraphProto& proto,
                                                     const BoundInputs& bound, const Scope& scope) {
  return contradicted_outputs(proto, bound, [&](const std::string& output) {
    const auto found = scope.find(output);
    return found && found->id > no_value
               ? std::optional(scope.model.builder().value(found->id).shape)
               : std::nullopt;
  });
}

/// The graph's own outputs among the model's.
Outputs outputs_before(const TailNodes& tail, const Scope& scope) {
  Outputs outputs;
  for (const auto& output : scope.model.file.model().graph().output())
    if (!tail.makes(output.name()))
      outputs.emplace_back(output.name(), model_output(output.name(), scope));
  return outputs;
}

/// What the tail reads that is made before it.
TailReads reads_of(const TailNodes& tail, const Scope& scope) {
  TailReads reads;
  for (const std::string& name : tail.reads()) {
    const ValueId id = scope.find(name).value().id;
    const bool is_sequence = Sequences::is_sequence(id);
    reads.push_back(
        {name, is_sequence ? scope.model.sequences.elements(id) : std::vector{id}, is_sequence});
    if (std::ranges::any_of(reads.back().values, [](ValueId value) { return value <= no_value; }))
      fail(
          "{}: '{}' is made before shapes that only a run tells and read behind them, but is a "
          "sequence of sequences or an optional value: take it apart before",
          scope.model.where, name);
  }
  return reads;
}

/// Makes what the tail reads an output, unless it is an input, a constant or an output already.
void add_outputs_for(const TailReads& reads, const ModelReading& model, Outputs& outputs) {
  std::unordered_set<ValueId> known;
  for (const auto& [name, id] : outputs) known.insert(id);
  for (const TailRead& read : reads) {
    for (const ValueId value : read.values) {
      const bool is_made = !model.builder().is_constant(value) && !model.builder().is_input(value);
      if (is_made && known.insert(value).second)
        outputs.emplace_back(model.builder().value(value).name, value);
    }
  }
}

/// The graph of all that was read, and the tail.
Imported finished(TailNodes tail, const Scope& scope) {
  ModelReading& model = scope.model;
  const onnx::GraphProto& proto = model.file.model().graph();
  std::unordered_set<std::string> names;
  for (const auto& output : proto.output()) names.insert(output.name());
  tail.keep_what_makes(std::move(names));
  Outputs outputs = outputs_before(tail, scope);
  const TailReads reads = reads_of(tail, scope);
  add_outputs_for(reads, model, outputs);
  Imported imported{model.builder().finish(outputs), std::nullopt, {}};
  Graph& graph = imported.graph;
  graph.name = proto.name();
  graph.opsets = used_opsets(graph, model.facts);
  if (!tail.empty()) imported.tail = make_tail(model.file, tail, reads, graph);
  remove_dead_nodes(graph);
  check_invariants(graph);
  if (!tail.empty()) check_tail(tail, *imported.tail, graph);
  return imported;
}

/// What is wrong with the nodes of a model, once for all nodes of an operator that are refused for
/// one reason. Nodes that read what refused ones would make are passed over.
class RefusedNodes {
 public:
  /// Takes the step that reads the node, unless the node reads what a refused one would make. Keeps
  /// what it throws; an UnknownShape that comes first goes on.
  template <typename Step>
  void try_node(const onnx::NodeProto& node, const Step& step) {
    const auto is_refused = [&](std::string_view name) {
      return names_.contains(std::string(name));
    };
    if (!names_.empty() && std::ranges::any_of(names_read(node), is_refused))
      return refuse_outputs(node);
    try {
      step();
    } catch (const UnknownShape&) {
      if (reasons_.empty()) throw;
      refuse_outputs(node);
    } catch (const LimitReached&) {
      throw;
    } catch (const Error& error) {
      refuse(node, error.what());
    }
  }

  /// A line a reason.
  void throw_if_any(const std::string& where) const {
    constexpr std::size_t most_lines = 12;
    Problems problems;
    const auto told = std::span(reasons_).first(std::min(reasons_.size(), most_lines));
    for (const auto& [op_type, text, message, count] : told) {
      if (count == 1)
        problems.add("{}", message);
      else
        problems.add("{} ({} nodes of {} in all)", message, count, op_type);
    }
    if (reasons_.size() > most_lines)
      problems.add("{}: {} more reasons to refuse nodes", where, reasons_.size() - most_lines);
    problems.throw_if_any();
  }

 private:
  /// Why nodes of one operator are refused, and how many.
  struct Reason {
    std::string op_type;
    std::string text;     ///< without what tells the node from others
    std::string message;  ///< of the first node
    int count = 1;
  };

  void refuse(const onnx::NodeProto& node, const std::string& message) {
    refuse_outputs(node);
    const std::string named = describe(node);
    std::string text = message;
    if (const auto at = text.find(named); at != std::string::npos) text.erase(at, named.size());
    const auto same = std::ranges::find_if(reasons_, [&](const Reason& reason) {
      return reason.op_type == node.op_type() && reason.text == text;
    });
    if (same != reasons_.end())
      ++same->count;
    else
      reasons_.push_back({node.op_type(), text, message});
  }

  void refuse_outputs(const onnx::NodeProto& node) {
    for (const std::string& output : node.output())
      if (!output.empty()) names_.insert(output);
  }

  std::vector<Reason> reasons_;
  std::unordered_set<std::string> names_;  ///< of what refused nodes would make
};

/// A model that is to be imported. With `leaves_tail`, nodes of the model whose outputs have shapes
/// that only a run tells are left to the tail; else they are refused. Both throw FunctionHidesTail
/// where the tail would begin within a function.
struct ToImport {
  ModelFile& file;
  const ImportOptions& options;
  bool leaves_tail = false;
};

/// A graph of the model: its inputs, weights, nodes and outputs.
Imported import_bound(const ToImport& what, const BoundInputs& bound,
                      std::vector<ContradictedOutput>& contradicted) {
  ModelReading model(what.file, what.options, Folding::of_small_constants);
  const onnx::GraphProto& proto = what.file.model().graph();
  const auto nodes = checked_nodes(proto, model.where);
  Scope scope = model_scope(model);
  add_inputs(proto, bound, scope);
  add_initializers(proto, scope);
  TailNodes tail;
  RefusedNodes refused;
  expect_work(std::ssize(nodes), ProgressListener::Unit::nodes);
  for (const auto* node : nodes) {
    note_done(1);
    refused.try_node(*node, [&] {
      if (what.leaves_tail)
        import_or_leave(*node, scope, tail);
      else
        import_node(*node, scope);
    });
  }
  contradicted = contradicted_outputs(proto, bound, scope);
  refused.throw_if_any(model.where);
  return finished(std::move(tail), scope);
}

/// Reads nodes as import_bound does, up to the first that is refused, or that is left to the tail
/// for shapes that disagree.
Attempt attempt_bound(const ToImport& what, const BoundInputs& bound) {
  const auto& [file, options, leaves_tail] = what;
  ModelReading model(file, options, Folding::of_small_constants);
  const onnx::GraphProto& proto = file.model().graph();
  Attempt attempt;
  const auto refused = [&] {
    attempt.nodes_read = model.nodes_read;
    if (model.refusal) attempt.refused = model.refusal->shapes;
    return attempt;
  };
  try {
    const auto nodes = checked_nodes(proto, model.where);
    Scope scope = model_scope(model);
    add_inputs(proto, bound, scope);
    add_initializers(proto, scope);
    TailNodes tail;
    for (const auto* node : nodes) {
      model.refusal.reset();
      const std::size_t left = tail.nodes().size();
      if (leaves_tail)
        import_or_leave(*node, scope, tail);
      else
        import_node(*node, scope);
      if (model.refusal && tail.nodes().size() > left) return refused();
    }
    for (const auto& each : contradicted_outputs(proto, bound, scope))
      attempt.contradictions.push_back({each.symbol, each.binding.extent, each.extent});
  } catch (const LimitReached&) {
    throw;
  } catch (const Error&) {
    return refused();
  }
  attempt.is_whole = true;
  return attempt;
}

Imported import_model(const ToImport& what) {
  const onnx::GraphProto& graph = what.file.model().graph();
  const std::string where = what.file.path().string();
  check_names(graph, where);  // shapes are bound to inputs by their names
  return import_assuming(
      graph, bind_inputs(graph, what.options, where), where,
      {[&](const BoundInputs& bound, std::vector<ContradictedOutput>& contradicted) {
         return import_bound(what, bound, contradicted);
       },
       [&](const BoundInputs& bound) { return attempt_bound(what, bound); }});
}

}  // namespace

OnnxInterpreter::OnnxInterpreter(const std::filesystem::path& file, Evaluator evaluate,
                                 IsNative is_native) {
  register_schemas();
  options_.evaluate = std::move(evaluate);
  options_.limits = unlimited_import;  // it is a run
  options_.is_native = std::move(is_native);
  file_ = std::make_unique<ModelFile>(file, /*weights_may_be_absent=*/false);
}

OnnxInterpreter::~OnnxInterpreter() = default;

std::map<std::string, Tensor> OnnxInterpreter::run(std::map<std::string, Tensor> inputs) const {
  ImportOptions options = options_;
  options.constants = std::move(inputs);
  ModelReading model(*file_, options, Folding::of_everything);
  const onnx::GraphProto& proto = file_->model().graph();
  const auto nodes = checked_nodes(proto, model.where);
  Scope scope = model_scope(model);
  add_inputs(proto, bind_inputs(proto, options, model.where), scope);
  add_initializers(proto, scope);
  for (const auto* node : nodes) naming_node(*node, model, [&] { import_node(*node, scope); });
  std::map<std::string, Tensor> outputs;
  for (const auto& output : proto.output())
    outputs.emplace(output.name(),
                    *model.builder().value(model_output(output.name(), scope)).constant);
  return outputs;
}

Graph load_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  register_schemas();
  ModelFile model(file, options.weights_may_be_absent);
  check_inlined_nodes(model, options.limits);
  return import_model({model, options, /*leaves_tail=*/false}).graph;
}

Imported load_onnx_with_tail(const std::filesystem::path& file, const ImportOptions& options) {
  return std::move(load_onnx_with_tail(file, std::span(&options, 1)).front());
}

std::vector<Imported> load_onnx_with_tail(const std::filesystem::path& file,
                                          std::span<const ImportOptions> each) {
  register_schemas();
  require(!each.empty(), "a model is read with some options");
  ModelFile model(file, each.front().weights_may_be_absent);
  check_inlined_nodes(model, each.front().limits);
  const auto read_all = [&] {
    std::vector<Imported> imported;
    for (const ImportOptions& options : each)
      imported.push_back(import_model({model, options, /*leaves_tail=*/true}));
    return imported;
  };
  try {
    return read_all();
  } catch (const FunctionHidesTail&) {
    model.inline_functions();
    return read_all();
  }
}

void check_import_options(const std::filesystem::path& file, const ImportOptions& options) {
  const ModelFile model(file, options.weights_may_be_absent);
  bind_inputs(model.model().graph(), options, model.path().string());
}

}  // namespace autopar::graph
