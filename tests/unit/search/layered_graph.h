#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "unit/program/random_graph.h"

namespace autopar {

/// A random layer of some operators, one after the other, so many times: products, element-wise
/// operators, residual additions and reductions of a matrix. Weights have no data.
class LayeredGraph {
 public:
  explicit LayeredGraph(Random& random) : random_(random) { graph_.opsets[""] = 20; }

  graph::Graph grow(int layers, int pieces) {
    graph_.name = "layered";
    rows_ = any_of<std::int64_t>(random_, {1, 6, 64, 4096});
    width_ = any_of<std::int64_t>(random_, {33, 64, 512});
    hidden_ = any_of<std::int64_t>(random_, {48, 128, 2048});
    x_ = value("x", {rows_, width_});
    graph_.inputs = {x_};
    std::vector<Piece> layer;
    for (int k = 0; k < pieces; ++k) layer.push_back(any_of(random_, all_pieces));
    for (int k = 0; k < layers; ++k) {
      const ValueId first = x_;
      for (const Piece piece : layer) (this->*piece)(first);
    }
    if (pick(random_, 0, 3) == 0) x_ = append("ReduceSum", {x_, axis(1)}, {rows_, 1});
    graph_.outputs = {x_};
    graph::check_invariants(graph_);
    return std::move(graph_);
  }

 private:
  using ValueId = graph::ValueId;
  using Piece = void (LayeredGraph::*)(ValueId);

  ValueId value(const std::string& name, const graph::Shape& shape) {
    return graph_.add_value({name, graph::DataType::float32, shape, std::nullopt});
  }
  ValueId weight(const graph::Shape& shape) {
    return graph_.add_constant("w", graph::Tensor::absent(graph::DataType::float32, shape));
  }
  ValueId axis(std::int64_t axis) {
    return graph_.add_constant("axis", graph::Tensor::of_int64({1}, {{axis}}));
  }
  ValueId append(const std::string& op_type, std::vector<ValueId> inputs,
                 const graph::Shape& shape) {
    const std::string name = op_type + std::to_string(graph_.nodes.size());
    const ValueId output = value(name + ":0", shape);
    graph_.nodes.push_back({name, op_type, "", std::move(inputs), {output}, {}});
    return output;
  }

  void product(ValueId /*first*/) {
    x_ = append("MatMul", {x_, weight({width_, width_})}, {rows_, width_});
  }
  void biased_product(ValueId /*first*/) {
    x_ = append("Gemm", {x_, weight({width_, width_}), weight({width_})}, {rows_, width_});
  }
  void two_products(ValueId /*first*/) {
    x_ = append("MatMul", {x_, weight({width_, hidden_})}, {rows_, hidden_});
    x_ = append("MatMul", {x_, weight({hidden_, width_})}, {rows_, width_});
  }
  void activation(ValueId /*first*/) { x_ = append("Gelu", {x_}, {rows_, width_}); }
  void scale(ValueId /*first*/) { x_ = append("Mul", {x_, weight({width_})}, {rows_, width_}); }
  void residual(ValueId first) { x_ = append("Add", {x_, first}, {rows_, width_}); }
  void centre(ValueId /*first*/) {
    const ValueId mean = append("ReduceMean", {x_, axis(1)}, {rows_, 1});
    x_ = append("Sub", {x_, mean}, {rows_, width_});
  }

  inline static const std::vector<Piece> all_pieces{
      &LayeredGraph::product,    &LayeredGraph::product, &LayeredGraph::biased_product,
      &LayeredGraph::activation, &LayeredGraph::scale,   &LayeredGraph::residual,
      &LayeredGraph::residual,   &LayeredGraph::centre,  &LayeredGraph::two_products};

  Random& random_;
  graph::Graph graph_;
  std::int64_t rows_ = 1;
  std::int64_t width_ = 1;
  std::int64_t hidden_ = 1;
  ValueId x_ = graph::no_value;
};

}  // namespace autopar
