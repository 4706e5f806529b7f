#include "graph/onnx/import/elided_nodes.h"

#include <optional>
#include <string_view>

#include "graph/onnx/node_conversion.h"

namespace autopar::graph {
namespace {

using Inputs = std::vector<ValueId>;

/// What the node's first output is, if the node can go.
using Elide = std::optional<ValueId> (*)(const onnx::NodeProto& node, const Inputs& inputs,
                                         const Scope& scope, ModelReading& model);

std::optional<ValueId> hold_constant(const onnx::NodeProto& node, const Inputs&, const Scope& scope,
                                     ModelReading& model) {
  return model.builder().add_constant(scope.name_outside(node.output(0)),
                                      constant_of(node, model.file), true);
}

std::optional<ValueId> pass_through(const onnx::NodeProto&, const Inputs& inputs, const Scope&,
                                    ModelReading&) {
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
  return training.constant->to_int64s().front() != 0;
}

/// The input passes in inference. A mask that is read, or training, keeps the node.
std::optional<ValueId> pass_dropout(const onnx::NodeProto& node, const Inputs& inputs, const Scope&,
                                    ModelReading& model) {
  const bool is_mask_read =
      node.output_size() > 1 && model.facts.names_read.contains(node.output(1));
  if (is_mask_read || may_train(inputs, model)) return std::nullopt;
  return inputs[0];
}

Elide elision_of(const onnx::NodeProto& node) {
  static const std::map<std::string_view, Elide> table = {
      {"Constant", hold_constant}, {"Identity", pass_through}, {"Dropout", pass_dropout}};
  const auto found = table.find(node.op_type());
  return !canonical_domain(node.domain()).empty() || found == table.end() ? nullptr : found->second;
}

}  // namespace

bool elide(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope,
           ModelReading& model) {
  const Elide elision = elision_of(node);
  const auto output = elision == nullptr ? std::nullopt : elision(node, inputs, scope, model);
  if (output) define(node.output(0), *output, scope, model);
  return output.has_value();
}

}  // namespace autopar::graph
