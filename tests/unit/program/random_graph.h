#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "sharding/connect.h"
#include "sharding/op_shard_spec.h"

namespace autopar {

using Random = std::mt19937;

inline int pick(Random& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

template <typename T>
const T& any_of(Random& random, const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(pick(random, 0, static_cast<int>(choices.size()) - 1))];
}

inline graph::Tensor random_floats(Random& random, graph::Shape shape, float scale = 1) {
  std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::normal_distribution<float> normal(0, scale);
  for (float& value : values) value = normal(random);
  return graph::Tensor::of_float(std::move(shape), values);
}

/// Grows a random graph of small operators, of extents that no mesh divides all. Values stay
/// moderate, and no operator has a jump, so that rounding stays rounding.
class RandomGraph {
 public:
  explicit RandomGraph(Random& random) : random_(random) { graph_.opsets[""] = 20; }

  graph::Graph grow(int operators) {
    graph_.name = "random";
    if (chance(3)) {
      append_embedding();
    } else {
      tensors_.push_back(
          add_input("x", graph::DataType::float32, {extent(3), extent(7), 2 * extent(6)}));
    }
    if (chance(5)) add_input("unread", graph::DataType::float32, {extent(5)});
    for (int i = 0; i < operators; ++i) append_any();
    graph_.outputs = {tensors_.back()};
    for (int more = pick(random_, 0, 2); more > 0; --more) {
      const ValueId other = any_of(random_, tensors_);
      const bool is_input = std::ranges::find(graph_.inputs, other) != graph_.inputs.end();
      const bool is_output = std::ranges::find(graph_.outputs, other) != graph_.outputs.end();
      if (!is_input && !is_output) graph_.outputs.push_back(other);
    }
    graph::remove_dead_nodes(graph_);
    graph::check_invariants(graph_);
    return std::move(graph_);
  }

 private:
  using ValueId = graph::ValueId;
  using Shape = graph::Shape;
  using Ints = std::vector<std::int64_t>;
  using Attributes = std::map<std::string, graph::Attribute>;

  static constexpr std::int64_t largest = 3000;  ///< elements of a tensor

  bool chance(int one_in) { return pick(random_, 1, one_in) == 1; }
  std::int64_t extent(int most) { return pick(random_, 1, most); }
  const Shape& shape_of(ValueId id) const { return graph_.value(id).shape; }
  std::size_t any_dim(const Shape& shape) {
    return static_cast<std::size_t>(pick(random_, 0, static_cast<int>(shape.size()) - 1));
  }

  ValueId add_input(const std::string& name, graph::DataType type, const Shape& shape) {
    const ValueId id = graph_.add_value({name, type, shape, std::nullopt});
    graph_.inputs.push_back(id);
    return id;
  }
  ValueId weight(const Shape& shape, float scale = 1) {
    return graph_.add_constant("w", random_floats(random_, shape, scale));
  }
  ValueId ints(const Ints& values) {
    return graph_.add_constant(
        "i", graph::Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
  }

  ValueId append(const std::string& op_type, std::vector<ValueId> inputs, const Shape& shape,
                 Attributes attributes = {}) {
    return append_several(op_type, std::move(inputs), {shape}, std::move(attributes)).front();
  }
  std::vector<ValueId> append_several(const std::string& op_type, std::vector<ValueId> inputs,
                                      const std::vector<Shape>& shapes, Attributes attributes) {
    const std::string name = op_type + std::to_string(graph_.nodes.size());
    std::vector<ValueId> outputs;
    for (const Shape& shape : shapes) {
      outputs.push_back(graph_.add_value({name + ":" + std::to_string(outputs.size()),
                                          graph::DataType::float32, shape, std::nullopt}));
    }
    graph_.nodes.push_back({name, op_type, "", std::move(inputs), outputs, std::move(attributes)});
    tensors_.insert(tensors_.end(), outputs.begin(), outputs.end());
    return outputs;
  }

  /// Mostly something that continues the chain; sometimes a branch.
  void append_any() {
    static constexpr void (RandomGraph::*operators[])(ValueId) = {
        &RandomGraph::matmul,       &RandomGraph::matmul,      &RandomGraph::attention_scores,
        &RandomGraph::gemm,         &RandomGraph::bias,        &RandomGraph::activation,
        &RandomGraph::softmax,      &RandomGraph::layer_norm,  &RandomGraph::join,
        &RandomGraph::join,         &RandomGraph::transpose,   &RandomGraph::split_heads,
        &RandomGraph::merge_dims,   &RandomGraph::unsqueeze,   &RandomGraph::squeeze,
        &RandomGraph::reduce,       &RandomGraph::gather,      &RandomGraph::slice,
        &RandomGraph::split_in_two, &RandomGraph::concatenate, &RandomGraph::expand,
        &RandomGraph::pad,          &RandomGraph::leaky,       &RandomGraph::triangle,
        &RandomGraph::running_sum,  &RandomGraph::tile};
    ValueId x = chance(3) ? any_of(random_, tensors_) : tensors_.back();
    if (graph::num_elements(shape_of(x)) > largest) {
      reduce(x);
      x = tensors_.back();
    }
    const int choice = pick(random_, 0, static_cast<int>(std::size(operators)) - 1);
    if (shape_of(x).empty()) {
      activation(x);
    } else {
      (this->*operators[choice])(x);
    }
  }

  void append_embedding() {
    const std::int64_t rows = 3 + extent(20);
    const std::int64_t width = 2 * extent(6);
    const ValueId ids = add_input("ids", graph::DataType::int64, {extent(3), extent(7)});
    Shape shape = shape_of(ids);
    shape.push_back(width);
    append("Gather", {weight({rows, width}), ids}, shape);
  }

  void matmul(ValueId x) {
    Shape shape = shape_of(x);
    const std::int64_t k = shape.back();
    shape.back() = extent(12);
    append("MatMul", {x, weight({k, shape.back()}, 1 / std::sqrt(static_cast<float>(k)))}, shape);
  }

  /// x times its own transpose.
  void attention_scores(ValueId x) {
    Shape shape = shape_of(x);
    if (shape.size() < 2) return bias(x);
    const std::size_t m = shape.size() - 2;
    Ints perm(shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[m], perm[m + 1]);
    Shape swapped = shape;
    std::swap(swapped[m], swapped[m + 1]);
    const ValueId bounded = append("Tanh", {x}, shape);
    const ValueId transposed = append("Transpose", {bounded}, swapped, {{"perm", perm}});
    shape.back() = shape[m];
    append("MatMul", {bounded, transposed}, shape);
  }

  void gemm(ValueId x) {
    Shape shape = shape_of(x);
    if (shape.size() != 2) {
      const std::int64_t k = shape.back();
      shape = {k == 0 ? 1 : graph::num_elements(shape) / k, k};
      x = append("Reshape", {x, ints(shape)}, shape);
    }
    const std::int64_t k = shape[1];
    const std::int64_t n = extent(9);
    const bool transposed = chance(2);
    const float scale = 1 / std::sqrt(static_cast<float>(k));
    const ValueId w = weight(transposed ? Shape{n, k} : Shape{k, n}, scale);
    std::vector<ValueId> inputs{x, w};
    const std::vector<Shape> biases{{n}, {shape[0], n}, {1}, {shape[0], 1}};
    if (!chance(4)) inputs.push_back(weight(any_of(random_, biases)));
    append("Gemm", inputs, {shape[0], n}, {{"transB", std::int64_t{transposed}}});
  }

  void bias(ValueId x) {
    const Shape shape = shape_of(x);
    Shape small(shape.end() - pick(random_, 1, static_cast<int>(shape.size())), shape.end());
    for (std::int64_t& each : small) {
      if (chance(3)) each = 1;
    }
    append("Add", {x, weight(small)}, shape);
  }

  void activation(ValueId x) {
    static const std::vector<std::string> functions{"Relu", "Tanh", "Gelu", "Sigmoid", "Abs"};
    append(any_of(random_, functions), {x}, Shape(shape_of(x)));
  }

  void softmax(ValueId x) {
    const Shape shape = shape_of(x);
    append("Softmax", {x}, shape, {{"axis", static_cast<std::int64_t>(any_dim(shape))}});
  }

  void layer_norm(ValueId x) {
    const Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    const Shape normalized(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
    std::vector<ValueId> inputs{x, weight(normalized)};
    if (chance(2)) inputs.push_back(weight(normalized));
    append("LayerNormalization", inputs, shape, {{"axis", static_cast<std::int64_t>(axis)}});
  }

  /// With another tensor of the same shape, or with a gate made of itself.
  void join(ValueId x) {
    const Shape shape = shape_of(x);
    std::vector<ValueId> partners;
    for (const ValueId other : tensors_) {
      if (other != x && shape_of(other) == shape) partners.push_back(other);
    }
    if (!partners.empty()) {
      static const std::vector<std::string> functions{"Add", "Sub", "Max"};
      append(any_of(random_, functions), {x, any_of(random_, partners)}, shape);
    } else {
      append("Mul", {x, append("Sigmoid", {x}, shape)}, shape);
    }
  }

  void transpose(ValueId x) {
    const Shape shape = shape_of(x);
    Ints perm(shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::ranges::shuffle(perm, random_);
    Shape result;
    for (const std::int64_t dim : perm) result.push_back(shape[static_cast<std::size_t>(dim)]);
    append("Transpose", {x}, result, {{"perm", perm}});
  }

  /// One dimension becomes two.
  void split_heads(ValueId x) {
    Shape shape = shape_of(x);
    const std::size_t dim = any_dim(shape);
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= shape[dim]; ++d) {
      if (shape[dim] % d == 0) divisors.push_back(d);
    }
    if (shape.size() > 3 || divisors.empty()) return reduce(x);
    const std::int64_t heads = any_of(random_, divisors);
    shape[dim] /= heads;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), heads);
    append("Reshape", {x, ints(shape)}, shape);
  }

  /// Two neighbouring dimensions become one.
  void merge_dims(ValueId x) {
    Shape shape = shape_of(x);
    if (shape.size() < 2) return split_heads(x);
    const auto dim = static_cast<std::size_t>(pick(random_, 0, static_cast<int>(shape.size()) - 2));
    shape[dim] *= shape[dim + 1];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
    append("Reshape", {x, ints(shape)}, shape);
  }

  void unsqueeze(ValueId x) {
    Shape shape = shape_of(x);
    if (shape.size() > 3) return reduce(x);
    const std::int64_t axis = pick(random_, 0, static_cast<int>(shape.size()));
    shape.insert(shape.begin() + axis, 1);
    append("Unsqueeze", {x, ints({axis})}, shape);
  }

  void squeeze(ValueId x) {
    Shape shape = shape_of(x);
    const auto one = std::ranges::find(shape, 1);
    if (one == shape.end()) return unsqueeze(x);
    const std::int64_t axis = one - shape.begin();
    shape.erase(one);
    append("Squeeze", {x, ints({axis})}, shape);
  }

  void reduce(ValueId x) {
    static const std::vector<std::string> functions{"ReduceSum", "ReduceMean", "ReduceMax",
                                                    "ReduceMin", "ReduceL2"};
    Shape shape = shape_of(x);
    const std::size_t dim = any_dim(shape);
    const bool keeps = chance(2);
    if (keeps) {
      shape[dim] = 1;
    } else {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    }
    append(any_of(random_, functions), {x, ints({static_cast<std::int64_t>(dim)})}, shape,
           {{"keepdims", std::int64_t{keeps}}});
  }

  void gather(ValueId x) {
    Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    const int rows = static_cast<int>(shape[axis]);
    Ints indices(static_cast<std::size_t>(extent(5)));
    for (std::int64_t& index : indices) index = pick(random_, -rows, rows - 1);
    shape[axis] = static_cast<std::int64_t>(indices.size());
    append("Gather", {x, ints(indices)}, shape, {{"axis", static_cast<std::int64_t>(axis)}});
  }

  void slice(ValueId x) {
    Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    const std::int64_t size = shape[axis];
    const std::int64_t begin = pick(random_, 0, static_cast<int>(size) - 1);
    const std::int64_t end = pick(random_, static_cast<int>(begin) + 1, static_cast<int>(size));
    const std::int64_t step = pick(random_, 1, 2);
    shape[axis] = (end - begin + step - 1) / step;
    append("Slice",
           {x, ints({begin}), ints({end}), ints({static_cast<std::int64_t>(axis)}), ints({step})},
           shape);
  }

  void split_in_two(ValueId x) {
    const Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    if (shape[axis] < 2) return activation(x);
    Shape left = shape;
    Shape right = shape;
    left[axis] = pick(random_, 1, static_cast<int>(shape[axis]) - 1);
    right[axis] = shape[axis] - left[axis];
    const auto along = static_cast<std::int64_t>(axis);
    const auto parts = append_several("Split", {x, ints({left[axis], right[axis]})}, {left, right},
                                      {{"axis", along}});
    append("Concat", {parts[1], parts[0]}, shape, {{"axis", along}});
  }

  void concatenate(ValueId x) {
    Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    const ValueId other = append("Tanh", {x}, shape);
    shape[axis] *= 2;
    append("Concat", {x, other}, shape, {{"axis", static_cast<std::int64_t>(axis)}});
  }

  void expand(ValueId x) {
    Shape shape = shape_of(x);
    const auto one = std::ranges::find(shape, 1);
    if (one != shape.end()) {
      *one = extent(5);
    } else if (shape.size() < 4) {
      shape.insert(shape.begin(), extent(4));
    }
    append("Expand", {x, ints(shape)}, shape);
  }

  void pad(ValueId x) {
    Shape shape = shape_of(x);
    const std::size_t axis = any_dim(shape);
    Ints pads(2 * shape.size(), 0);
    pads[axis] = pick(random_, 0, 2);
    pads[axis + shape.size()] = pick(random_, 0, 2);
    shape[axis] += pads[axis] + pads[axis + shape.size()];
    append("Pad", {x, ints(pads)}, shape);
  }

  void leaky(ValueId x) {
    const Shape shape = shape_of(x);
    const ValueId zero = graph_.add_constant("zero", graph::Tensor::of_float({}, {{0.0F}}));
    const ValueId half = graph_.add_constant("half", graph::Tensor::of_float({}, {{0.5F}}));
    const ValueId above = append("Greater", {x, zero}, shape);
    graph_.value(above).type = graph::DataType::boolean;
    tensors_.pop_back();
    append("Where", {above, x, append("Mul", {x, half}, shape)}, shape);
  }

  void triangle(ValueId x) {
    const Shape shape = shape_of(x);
    if (shape.size() < 2) return activation(x);
    append("Trilu", {x}, shape, {{"upper", std::int64_t{chance(2)}}});
  }

  void running_sum(ValueId x) {
    const Shape shape = shape_of(x);
    const std::vector axis{static_cast<std::int64_t>(any_dim(shape))};
    append("CumSum", {x, graph_.add_constant("axis", graph::Tensor::of_int64({}, axis))}, shape);
  }

  void tile(ValueId x) {
    Shape shape = shape_of(x);
    Ints repeats(shape.size(), 1);
    const std::size_t axis = any_dim(shape);
    repeats[axis] = 2;
    shape[axis] *= 2;
    append("Tile", {x, ints(repeats)}, shape);
  }

  Random& random_;
  graph::Graph graph_;
  std::vector<ValueId> tensors_;
};

/// The strategies that the operator can have where its inputs lie as the plan says so far. What is
/// partial may be kept unless it is an output of the model. In half of the cases only those that
/// have most partial inputs and outputs, since blind choice seldom meets them.
inline std::vector<sharding::OpShardSpec> possible_strategies(Random& random,
                                                              const graph::Graph& graph,
                                                              const graph::Node& node,
                                                              const plan::Plan& plan) {
  const auto rule = sharding::sharding_rule(graph, node);
  require(rule.has_value(), "every operator of a random graph has a rule");
  sharding::PartialUse partial;
  for (std::size_t group = 0; group < rule->linear.size(); ++group) partial.groups.push_back(group);
  for (const graph::ValueId output : node.outputs) {
    partial.kept.push_back(std::ranges::find(graph.outputs, output) == graph.outputs.end());
  }
  std::vector<sharding::OpShardSpec> possible;
  std::vector<sharding::OpShardSpec> partial_most;
  std::ptrdiff_t most = 0;
  for (auto& choice :
       sharding::enumerate_op_shard_specs(*rule, plan.mesh, sharding::input_shapes(graph, node),
                                          sharding::output_shapes(graph, node), partial)) {
    bool can_read = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!choice.inputs[i].is_partial()) continue;
      can_read = can_read && !graph.is_constant(node.inputs[i]) &&
                 can_connect(plan.spec_of(graph, node.inputs[i]), choice.inputs[i]);
    }
    if (!can_read) continue;
    const auto count =
        std::ranges::count_if(choice.inputs, &sharding::TensorShardSpec::is_partial) +
        std::ranges::count_if(choice.outputs, &sharding::TensorShardSpec::is_partial);
    if (count > most) partial_most.clear();
    most = std::max(most, count);
    if (count == most) partial_most.push_back(choice);
    possible.push_back(std::move(choice));
  }
  return pick(random, 0, 1) == 0 ? partial_most : possible;
}

/// A valid strategy for every operator and a place for every stored tensor, chosen blindly.
inline plan::Plan random_plan(Random& random, const graph::Graph& graph,
                              const sharding::DeviceMesh& mesh) {
  plan::Plan plan;
  plan.mesh = mesh;
  plan.device = "cpu";
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value = static_cast<graph::ValueId>(id);
    const bool is_input = std::ranges::find(graph.inputs, value) != graph.inputs.end();
    if (!is_input && !graph.is_constant(value)) continue;
    const auto specs = sharding::enumerate_tensor_shard_specs(graph.value(value).shape, mesh);
    plan.stored.emplace(value, any_of(random, specs));
  }
  for (const graph::Node& node : graph.nodes) {
    plan.operators.push_back(any_of(random, possible_strategies(random, graph, node, plan)));
  }
  return plan;
}

/// Random values for an input: floats, or ids of an embedding's first three rows or last.
inline graph::Tensor random_input(Random& random, const graph::Value& value) {
  if (value.type == graph::DataType::float32) return random_floats(random, value.shape);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(graph::num_elements(value.shape)));
  for (std::int64_t& id : ids) id = pick(random, -1, 2);
  return graph::Tensor::of_int64(value.shape, ids);
}

}  // namespace autopar
