#pragma once

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

/// Runs a graph with the operators that only the compiler makes as plain loops in double, whether
/// the CPU has kernels for them or not, and all others, node by node, on the CPU.
namespace autopar::runtime::testing {

/// Numbers of any type with a shape.
struct Numbers {
  Shape shape;
  std::vector<double> values;

  explicit Numbers(Shape of) : shape(std::move(of)) {
    values.resize(static_cast<std::size_t>(graph::num_elements(shape)));
  }
  explicit Numbers(const Tensor& tensor) : shape(tensor.shape()), values(doubles(tensor)) {}

  double& at(const Shape& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
    return values[static_cast<std::size_t>(offset)];
  }
  /// As ONNX's Transpose; an empty permutation leaves all as it is.
  Numbers transposed(const std::vector<std::int64_t>& permutation) {
    if (permutation.empty()) return *this;
    Shape to;
    for (const std::int64_t d : permutation) to.push_back(shape[static_cast<std::size_t>(d)]);
    Numbers result(to);
    for_each_index(to, [&](const Shape& index) {
      Shape from(index.size());
      for (std::size_t d = 0; d < index.size(); ++d)
        from[static_cast<std::size_t>(permutation[d])] = index[d];
      result.at(index) = at(from);
    });
    return result;
  }
};

/// Scores under a mask, as passes.h says; no mask where it is null.
inline double masked(double score, const Tensor* mask, const Shape& index, double fill) {
  if (mask == nullptr) return score;
  const double value = at(*mask, index);
  if (mask->type() == DataType::boolean) return value != 0 ? score : fill;
  return score + value;
}

/// The softmax of a row in place.
inline void soften(std::vector<double>& row, bool nan_to_zero) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - largest);
  for (double& x : row) x = nan_to_zero && std::isnan(sum) ? 0 : x / sum;
}

class GraphEvaluator {
 public:
  explicit GraphEvaluator(const graph::Graph& graph) : graph_(graph) {}

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs[i]] = inputs[i];
    for (const graph::Node& node : graph_.nodes) run_node(node);
    std::vector<Tensor> outputs;
    for (const graph::ValueId id : graph_.outputs) outputs.push_back(value(id));
    return outputs;
  }

 private:
  Tensor value(graph::ValueId id) {
    return graph_.is_constant(id) ? graph_.value(id).constant->contiguous_copy() : values_.at(id);
  }

  void run_node(const graph::Node& node) {
    const bool is_ours = node.domain == passes::internal_domain;
    if (is_ours && node.op_type == "Attention")
      store(node, attention(node));
    else if (is_ours && node.op_type == "MaskedSoftmax")
      store(node, masked_softmax(node));
    else if (is_ours && node.op_type == "RotaryEmbedding")
      store(node, rotary_embedding(node));
    else if (is_ours && node.op_type == "FusedMatMul")
      store(node, product(node));
    else
      run_on_cpu(node);
  }

  void store(const graph::Node& node, const Numbers& numbers) {
    const graph::Value& out = graph_.value(node.outputs[0]);
    REQUIRE(numbers.shape == out.shape);
    values_[node.outputs[0]] = tensor_of(out.type, out.shape, numbers.values);
  }

  void run_on_cpu(const graph::Node& node) {
    graph::Graph single;
    single.opsets = graph_.opsets;
    graph::Node copy = node;
    std::vector<Tensor> inputs;
    for (graph::ValueId& id : copy.inputs) {
      if (id == graph::no_value) continue;
      graph::Value operand = graph_.value(id);
      operand.name += std::to_string(single.values.size());
      operand.constant = value(id);
      id = single.add_value(operand);
    }
    for (graph::ValueId& id : copy.outputs) {
      id = single.add_value(graph_.value(id));
      single.outputs.push_back(id);
    }
    single.nodes.push_back(copy);
    const auto results = evaluate_constants(single);
    INFO(node.op_type);
    REQUIRE(results);
    for (std::size_t i = 0; i < results->size(); ++i) values_[node.outputs[i]] = (*results)[i];
  }

  std::optional<Tensor> optional_input(const graph::Node& node, std::size_t i) {
    if (node.inputs.size() <= i) return std::nullopt;
    return value(node.inputs[i]);
  }

  Numbers read(const graph::Node& node, std::size_t i, const char* permutation) {
    return Numbers(value(node.inputs[i])).transposed(node.ints_attribute(permutation, {}));
  }

  Numbers attention(const graph::Node& node) {
    Numbers q = read(node, 0, "q_perm");
    Numbers k = read(node, 1, "k_perm");
    Numbers v = read(node, 2, "v_perm");
    const auto mask = optional_input(node, 3);
    const double fill = node.float_attribute("fill", -std::numeric_limits<float>::infinity());
    const std::int64_t queries = q.shape[2];
    const std::int64_t keys = k.shape[2];
    const std::int64_t group = q.shape[1] / k.shape[1];
    REQUIRE(group * k.shape[1] == q.shape[1]);
    Numbers out({q.shape[0], q.shape[1], queries, v.shape[3]});
    for_each_index({q.shape[0], q.shape[1], queries}, [&](const Shape& row) {
      std::vector<double> p(static_cast<std::size_t>(keys));
      for (std::int64_t t = 0; t < keys; ++t) {
        double score = 0;
        for (std::int64_t d = 0; d < q.shape[3]; ++d)
          score += q.at({row[0], row[1], row[2], d}) * k.at({row[0], row[1] / group, t, d});
        score *= node.float_attribute("scale", 1);
        const bool is_later = t > row[2] + keys - queries;
        if (node.int_attribute("causal", 0) != 0 && is_later)
          score = -std::numeric_limits<double>::infinity();
        p[static_cast<std::size_t>(t)] =
            masked(score, mask ? &*mask : nullptr, {row[0], row[1], row[2], t}, fill);
      }
      soften(p, node.int_attribute("nan_to_zero", 0) != 0);
      for (std::int64_t t = 0; t < keys; ++t)
        for (std::int64_t e = 0; e < v.shape[3]; ++e)
          out.at({row[0], row[1], row[2], e}) +=
              p[static_cast<std::size_t>(t)] * v.at({row[0], row[1] / group, t, e});
    });
    return out.transposed(node.ints_attribute("out_perm", {}));
  }

  Numbers masked_softmax(const graph::Node& node) {
    Numbers x(value(node.inputs[0]));
    const auto mask = optional_input(node, 1);
    const double fill = node.float_attribute("fill", -std::numeric_limits<float>::infinity());
    Shape rows = x.shape;
    rows.pop_back();
    for_each_index(rows, [&](const Shape& row) {
      std::vector<double> p;
      Shape index = row;
      index.push_back(0);
      for (index.back() = 0; index.back() < x.shape.back(); ++index.back())
        p.push_back(masked(node.float_attribute("scale", 1) * x.at(index), mask ? &*mask : nullptr,
                           index, fill));
      soften(p, node.int_attribute("nan_to_zero", 0) != 0);
      for (index.back() = 0; index.back() < x.shape.back(); ++index.back())
        x.at(index) = p[static_cast<std::size_t>(index.back())];
    });
    return x;
  }

  Numbers rotary_embedding(const graph::Node& node) {
    Numbers x(value(node.inputs[0]));
    const Tensor cos = value(node.inputs[1]);
    const Tensor sin = value(node.inputs[2]);
    Numbers out(x.shape);
    const std::int64_t half = x.shape.back() / 2;
    for_each_index(x.shape, [&](const Shape& index) {
      Shape other = index;
      other.back() += index.back() < half ? half : -half;
      const double rotated = index.back() < half ? -x.at(other) : x.at(other);
      out.at(index) = x.at(index) * testing::at(cos, index) + rotated * testing::at(sin, index);
    });
    return out;
  }

  Numbers product(const graph::Node& node) {
    const auto operand = [&](std::size_t i, const char* flag, const char* permutation) {
      Numbers numbers = read(node, i, permutation);
      if (node.int_attribute(flag, 0) == 0) return numbers;
      REQUIRE(!node.has_attribute(permutation));
      std::vector<std::int64_t> swap(numbers.shape.size());
      for (std::size_t d = 0; d < swap.size(); ++d) swap[d] = static_cast<std::int64_t>(d);
      std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
      return numbers.transposed(swap);
    };
    Numbers a = operand(0, "transA", "a_perm");
    Numbers b = operand(1, "transB", "b_perm");
    const auto bias = optional_input(node, 2);
    Shape shape(std::max(a.shape.size(), b.shape.size()), 1);
    for (Numbers* each : {&a, &b})
      each->shape.insert(each->shape.begin(), shape.size() - each->shape.size(), 1);
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) shape[d] = std::max(a.shape[d], b.shape[d]);
    shape[shape.size() - 2] = a.shape[shape.size() - 2];
    shape.back() = b.shape.back();
    Numbers out(shape);
    for_each_index(shape, [&](const Shape& index) {
      Shape ia = index;
      Shape ib = index;
      for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
        ia[d] = a.shape[d] == 1 ? 0 : index[d];
        ib[d] = b.shape[d] == 1 ? 0 : index[d];
      }
      double sum = bias ? doubles(*bias)[static_cast<std::size_t>(index.back())] : 0;
      for (std::int64_t k = 0; k < a.shape.back(); ++k) {
        ia.back() = k;
        ib[ib.size() - 2] = k;
        sum += a.at(ia) * b.at(ib);
      }
      out.at(index) = activated(sum, node.string_attribute("activation", ""));
    });
    return out.transposed(node.ints_attribute("out_perm", {}));
  }

  static double activated(double x, const std::string& activation) {
    if (activation == "Relu") return std::max(x, 0.0);
    if (activation == "Gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
    if (activation == "GeluTanh")
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
    REQUIRE(activation.empty());
    return x;
  }

  const graph::Graph& graph_;
  std::map<graph::ValueId, Tensor> values_;
};

}  // namespace autopar::runtime::testing
