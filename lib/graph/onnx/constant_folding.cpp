#include "graph/onnx/constant_folding.h"

#include <algorithm>
#include <set>

#include "base/checked.h"

namespace autopar::graph {
namespace {

/// Enough for the masks of sequences of 1024, small beside any weight.
constexpr std::int64_t most_output_bytes = std::int64_t{4} << 20;
constexpr std::int64_t most_input_bytes = std::int64_t{8} << 20;

Tensor shape_between(const Node& node, const Shape& input) {
  const auto rank = static_cast<std::int64_t>(input.size());
  const auto clamped = [rank](std::int64_t at) {
    return std::clamp(at < 0 ? at + rank : at, std::int64_t{0}, rank);
  };
  const std::int64_t start = clamped(node.int_attribute("start", 0));
  const std::int64_t end = std::max(start, clamped(node.int_attribute("end", rank)));
  const Shape part(input.begin() + start, input.begin() + end);
  return Tensor::of_int64({end - start}, part);
}

Tensor element_count(const Node&, const Shape& input) {
  return Tensor::of_int64({}, {{num_elements(input)}});
}

/// Operators whose results' shapes depend on values: inference tells none, the evaluator does.
bool is_data_shaped(const NodeInContext& context) {
  static const std::set<std::string_view> operators = {"Compress", "NonMaxSuppression", "NonZero",
                                                       "Unique"};
  return context.schema->domain().empty() && operators.contains(context.schema->Name());
}

/// A placeholder where the shape is not known: the evaluator gives one.
Shape expected_shape(const OutputType& output) { return output.shape.value_or(Shape{0}); }

/// Bytes that all outputs take, as far as their shapes are known.
std::int64_t known_bytes(const std::vector<OutputType>& outputs) {
  std::int64_t bytes = 0;
  for (const OutputType& output : outputs)
    bytes = checked_add(bytes, bytes_of(output.type, num_elements(expected_shape(output))),
                        "the bytes of its outputs");
  return bytes;
}

/// Weights that are stored in few bits stay so: a run makes numbers of them, or computes with them
/// as they are. What is smaller than any weight may be what shapes depend on.
bool unpacks_weights(const NodeInContext& context) {
  constexpr std::int64_t least_elements = 1024;
  if (context.schema->Name() != "DequantizeLinear" || context.inputs[0] == nullptr) return false;
  const Shape& shape = context.inputs[0]->shape;
  return num_elements(shape) >= least_elements &&
         std::ranges::count_if(shape, [](std::int64_t extent) { return extent > 1; }) > 1;
}

bool is_foldable(const NodeInContext& context, const std::vector<OutputType>& outputs,
                 const std::vector<bool>& is_weight) {
  static const std::set<std::string_view> random_operators = {
      "Bernoulli",     "Multinomial",      "RandomNormal",
      "RandomUniform", "RandomNormalLike", "RandomUniformLike"};
  if (!context.schema->domain().empty() || unpacks_weights(context) ||
      random_operators.contains(context.schema->Name()))
    return false;
  std::int64_t input_bytes = 0;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const Value* value = context.inputs[i];
    if (!value) continue;
    if (!value->constant || !value->constant->has_data()) return false;
    // What shapes depend on is folded, be it a weight: nothing else can be done with it.
    if (is_weight[i] && !is_data_shaped(context)) return false;
    input_bytes += value->constant->size_bytes();
  }
  const auto is_known = [&](const OutputType& output) {
    return output.shape || is_data_shaped(context);
  };
  return std::ranges::all_of(outputs, is_known) && input_bytes <= most_input_bytes &&
         known_bytes(outputs) <= most_output_bytes;
}

/// The node alone, its inputs constants that kernels may read as they are: aligned.
Graph single_node_graph(const NodeInContext& context, const Node& node,
                        const std::vector<OutputType>& outputs) {
  Graph graph;
  graph.opsets = context.opsets;
  Node copy = node;
  copy.inputs.clear();
  copy.outputs.clear();
  for (const Value* value : context.inputs) {
    if (!value) {
      copy.inputs.push_back(no_value);
      continue;
    }
    const Tensor& tensor = *value->constant;
    copy.inputs.push_back(graph.add_constant(
        value->name,
        tensor.is_aligned() && tensor.is_contiguous() ? tensor : tensor.contiguous_copy()));
  }
  for (int o = 0; o < context.node.output_size(); ++o) {
    if (context.node.output(o).empty()) {
      copy.outputs.push_back(no_value);
      continue;
    }
    const auto& output = outputs[static_cast<std::size_t>(o)];
    const ValueId id =
        graph.add_value({"output " + std::to_string(o), output.type, expected_shape(output), {}});
    copy.outputs.push_back(id);
    graph.outputs.push_back(id);
  }
  graph.nodes.push_back(std::move(copy));
  return graph;
}

}  // namespace

std::optional<std::vector<Tensor>> fold(const NodeInContext& context, const Node& node,
                                        const std::vector<OutputType>& outputs,
                                        const std::vector<bool>& is_weight,
                                        const Evaluator& evaluate, Folding folding) {
  // Operators whose result is a function of their input's shape alone.
  static const std::map<std::string_view, Tensor (*)(const Node&, const Shape&)> of_shape = {
      {"Shape", shape_between}, {"Size", element_count}};
  const auto found = of_shape.find(node.op_type);
  if (context.schema->domain().empty() && found != of_shape.end())
    return std::vector{found->second(node, context.inputs[0]->shape)};
  if (folding != Folding::of_everything && !is_foldable(context, outputs, is_weight))
    return std::nullopt;
  if (evaluate) {
    context.take_constant(known_bytes(outputs));
    const Graph graph = single_node_graph(context, node, outputs);
    if (auto results = evaluate(graph)) {
      require(results->size() == graph.outputs.size(), "an evaluator gives every output");
      for (std::size_t i = 0; i < results->size(); ++i) {
        const Shape& expected = graph.value(graph.outputs[i]).shape;
        if (is_data_shaped(context)) context.take_constant((*results)[i].size_bytes());
        require((is_data_shaped(context) || (*results)[i].shape() == expected) &&
                    (*results)[i].type() == graph.value(graph.outputs[i]).type,
                "an evaluator gives the type and shape that inference found");
      }
      return results;
    }
  }
  if (is_data_shaped(context)) return std::nullopt;
  if (auto propagated = propagate_data(context, outputs[0]))
    return std::vector{std::move(*propagated)};
  return std::nullopt;
}

}  // namespace autopar::graph
