#pragma once

#include <onnx/onnx_pb.h>

#include "graph/onnx/constant_folding.h"
#include "graph/onnx/import/body_frames.h"
#include "graph/onnx/import/graph_builder.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/topological_order.h"

namespace autopar::graph {

/// A value that a scope's name stands for, and the depth of the graph that has it.
struct ScopedValue {
  ValueId id = no_value;
  int depth = 0;
};

struct ModelReading;

/// The names that nodes of one ONNX graph or function body see, and how they are called outside.
struct Scope {
  explicit Scope(ModelReading& of) : model(of) {}

  ModelReading& model;
  const Scope* parent = nullptr;  ///< what the branches of an If see as well
  std::map<std::string, std::int64_t> opsets;
  int depth = 0;    ///< of the graph that its values are in: 0 the model's, 1 a loop's body there
  int nesting = 0;  ///< functions and nested graphs that it is within
  std::string prefix;  ///< of names from inside, "layer_0/"; empty in the model's own graph
  std::unordered_map<std::string, ValueId> values;  ///< no_value: an input that is left out
  /// What the body's results are called by its caller.
  std::unordered_map<std::string, ValueName> outer_names;

  /// Nothing where the name is not defined.
  std::optional<ScopedValue> find(const std::string& name) const;
  ValueName name_outside(const std::string& name) const;
};

/// The limit of functions and nested graphs within one another.
inline constexpr int deepest_nesting = 64;

/// Facts about a model that are known before its nodes are read.
struct ModelFacts {
  /// The version that all nodes are brought to, by domain.
  std::map<std::string, std::int64_t> target_opsets;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions;  ///< see find_function
  std::unordered_set<std::string> names_read;  ///< by nodes, or as outputs
};

ModelFacts facts_of(const ModelFile& file);

/// The function of the model that the node calls, or null.
const onnx::FunctionProto* find_function(const onnx::NodeProto& call, const ModelFacts& facts);

/// Versions by domain of what the graph uses.
std::map<std::string, std::int64_t> used_opsets(const Graph& graph, const ModelFacts& facts);

/// What a node was given that was refused for what its inputs are.
struct Refusal {
  std::size_t nodes_read = 0;  ///< before it
  std::vector<Shape> shapes;   ///< of its inputs; short constants' integers, too
};

/// A model while its nodes are read: what it is, and the graphs that are made of it.
struct ModelReading {
  /// File and options must outlive this.
  ModelReading(ModelFile& model_file, const ImportOptions& import_options, Folding nodes_fold)
      : file(model_file),
        options(import_options),
        facts(facts_of(model_file)),
        where(model_file.path().string()),
        budget(import_options.limits),
        folding_of_model(nodes_fold) {}

  /// The builder of the innermost graph.
  GraphBuilder& builder() { return frames.builder(); }
  const GraphBuilder& builder() const { return frames.builder(); }
  /// Within a loop's body nothing is computed as it is read.
  Folding folding() const {
    return frames.depth() == 0 ? folding_of_model : Folding::of_small_constants;
  }

  /// Keeps what the innermost of nodes within one another was given.
  void note_refusal(std::vector<Shape> shapes) {
    if (!refusal || refusal->nodes_read != nodes_read)
      refusal = Refusal{nodes_read, std::move(shapes)};
  }

  ModelFile& file;
  const ImportOptions& options;
  const ModelFacts facts;
  const std::string where;  ///< the model's file, for messages
  ImportBudget budget;
  const Folding folding_of_model;
  Sequences sequences;
  BodyFrames frames{sequences};
  bool has_assumed_extents = false;  ///< of its inputs
  std::size_t nodes_read = 0;        ///< in functions and nested graphs, too
  std::optional<Refusal> refusal;    ///< the last, though it may have been overcome
};

/// Where a node is, for messages: "model.onnx: node 'x' (Relu)".
std::string place_of(const onnx::NodeProto& node, const ModelReading& model);

/// How names from inside of the node begin outside of it.
std::string prefix_inside(const onnx::NodeProto& node, const Scope& scope);

/// Defines the name in the scope. Throws Error where it is defined there already.
void define(const std::string& name, ValueId id, Scope& scope);
/// Defines the outputs of a node that are not left out.
void define_outputs(const onnx::NodeProto& node, const std::vector<ValueId>& outputs, Scope& scope);
void add_initializers(const onnx::GraphProto& proto, Scope& scope);

/// What the innermost graph calls the value of this name; no_value for a function's input that the
/// caller left out. Throws Error where nothing makes it.
ValueId find_value(const std::string& name, const onnx::NodeProto& reader, const Scope& scope);
/// The same for each of a node's inputs; no_value for those that are left out.
std::vector<ValueId> find_inputs(const onnx::NodeProto& node, const Scope& scope);
/// A value that is a tensor, for operators that know nothing else.
const Value& tensor_value(ValueId id, const onnx::NodeProto& reader, const ModelReading& model);

/// Calls `step` and names file and node in the Error that it throws, if that does not do so.
template <typename Step>
auto naming_node(const onnx::NodeProto& node, const ModelReading& model, const Step& step) {
  const auto named = [&](const Error& error) {
    return fmt::format("{}: {}: {}", model.where, describe(node), error.what());
  };
  const auto is_named = [&](const Error& error) {
    return std::string_view(error.what()).starts_with(model.where);
  };
  try {
    return step();
  } catch (const UnknownShape& error) {
    if (is_named(error)) throw;
    throw UnknownShape(named(error));
  } catch (const Error& error) {
    if (is_named(error)) throw;
    throw Error(named(error));
  }
}

}  // namespace autopar::graph
