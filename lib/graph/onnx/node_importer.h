#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/onnx/body_frames.h"
#include "graph/onnx/constant_folding.h"
#include "graph/onnx/control_flow.h"
#include "graph/onnx/function_body.h"
#include "graph/onnx/graph_builder.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/node_inference.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/sequences.h"

namespace autopar::graph {

/// Takes a model's nodes in order, as an interpreter would, and builds the graph as it goes. For
/// each node: upgrade its form, infer its outputs, and fold it into constants, inline it where it
/// is a function without a kernel, or add it. Functions and branches are walked in scopes of their
/// own.
class NodeImporter {
 public:
  /// File and options must outlive this.
  NodeImporter(ModelFile& file, const ImportOptions& options, Folding folding);

  /// Names that belong to the model's values, names that are read, and functions.
  void collect_model_facts(const onnx::GraphProto& proto);
  void add_initializers(const onnx::GraphProto& proto, Scope& scope);
  void bind(Scope& scope, const std::string& name, ValueId id);

  /// Binds the node's outputs in the scope.
  void import_node(const onnx::NodeProto& node, Scope& scope);

  bool is_local_function(const onnx::NodeProto& node) const;
  ValueId model_output(const std::string& name, const Scope& scope) const;
  /// The tensors of a sequence.
  std::vector<ValueId> elements(ValueId sequence) const { return sequences_.elements(sequence); }
  GraphBuilder& builder() { return frames_.builder(); }
  const GraphBuilder& builder() const { return frames_.builder(); }
  /// By domain: the version that all nodes are brought to.
  const std::map<std::string, std::int64_t>& target_opsets() const { return target_opsets_; }
  std::map<std::string, std::int64_t> used_opsets(const Graph& graph) const;

 private:
  using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  /// A node in the form of the target opset.
  void import_upgraded(const onnx::NodeProto& node, Scope& scope);
  void emit(const onnx::NodeProto& node, Node converted, const std::vector<InferredOutput>& outputs,
            Scope& scope);
  [[noreturn]] void refuse_without_shape(const onnx::NodeProto& node, const std::string& output,
                                         const std::vector<ValueId>& inputs) const;
  void bind_constants(const onnx::NodeProto& node, std::vector<Tensor> tensors, Scope& scope,
                      bool from_file = false);

  /// no_value for a function's input that the caller left out.
  ValueId lookup(const std::string& name, const onnx::NodeProto& reader, const Scope& scope);
  /// A value that is a tensor, for operators that know nothing else.
  const Value& tensor_value(ValueId id, const onnx::NodeProto& reader) const;
  std::vector<std::int64_t> constant_ints(ValueId id) const;

  // Nodes that are not there after import.

  /// Binds the outputs of a node that computes nothing, if it is one.
  bool dissolve(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope);
  bool take_constant(const onnx::NodeProto& node, const std::vector<ValueId>&, Scope& scope);
  bool pass_through(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope);
  /// In inference the input passes. A mask that somebody reads, or training, keeps the node.
  bool pass_dropout(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope);

  // Nested graphs.

  /// Reads nodes with nested graphs into nodes without, but for loops that only the run ends, and
  /// what is done with sequences into what is done with their tensors; binds the outputs.
  bool read_special(const onnx::NodeProto& node, std::int64_t opset, Scope& scope);
  /// `shared` has a scope for each nested graph: its initializers, which all rounds have in common.
  ControlFlowServices control_flow_services(const onnx::NodeProto& node, Scope& scope,
                                            std::map<const onnx::GraphProto*, Scope>& shared);
  std::vector<ValueId> add_loop(const onnx::NodeProto& node, const Scope& scope,
                                std::vector<ValueId> inputs, LoopBody body,
                                const std::vector<LoopOutput>& outputs);
  [[noreturn]] void refuse_nested_graphs(const onnx::NodeProto& node) const;

  // Functions.

  FunctionBody local_body(const onnx::NodeProto& node, const onnx::FunctionProto& function);
  std::optional<FunctionBody> microsoft_body(const NodeInContext& context) const;
  bool is_inlined(const NodeInContext& context) const;
  void call(const onnx::NodeProto& node, FunctionBody body, Scope& scope);
  /// Walks the nodes of a function or branch in `inner` and binds the caller's outputs to what the
  /// body's outputs (by index) are.
  template <typename Prepare, typename OutputName>
  void import_body(const NodeList& nodes, const onnx::NodeProto& caller, Scope& scope, Scope& inner,
                   const Prepare& prepare, const OutputName& output_name);

  /// Within a loop's body nothing is computed as it is read.
  Folding folding() const { return frames_.depth() == 0 ? folding_ : Folding::of_small_constants; }

  ModelFile& file_;
  const ImportOptions& options_;
  Folding folding_;
  std::string where_;
  Sequences sequences_;
  BodyFrames frames_{sequences_};
  std::map<std::string, std::int64_t> target_opsets_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_set<std::string> names_read_;
  int helper_constants_ = 0;
  int depth_ = 0;
};

}  // namespace autopar::graph
