#pragma once

#include <optional>
#include <random>
#include <vector>

#include "graph/onnx/infer_node.h"
#include "graph/onnx/onnx_import.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

/// A tensor's elements, whatever its type, row-major.
struct Numbers {
  Shape shape;
  std::vector<double> values;
};

/// Runs small graphs, an operator whole or its shards, by an evaluator that the caller has. What is
/// found out about a rule by running it rests on this.
class ShardRunner {
 public:
  /// `evaluate` must serve Cast, which makes numbers of tensors.
  explicit ShardRunner(graph::Evaluator evaluate) : evaluate_(std::move(evaluate)) {}

  Numbers numbers(const graph::Tensor& tensor) const;
  graph::Tensor tensor(graph::DataType type, const Numbers& numbers) const;
  /// Random numbers from [low, high), whole ones for integers, 0 and 1 for bool.
  graph::Tensor random(graph::DataType type, const Shape& shape, double low, double high,
                       std::mt19937& generator) const;

  /// The outputs of `graph` with these tensors in the place of graph.inputs. nullopt where an
  /// output has another type or shape by ONNX's inference than the graph says, where inference or
  /// a kernel refuses an input, and where there is no kernel.
  std::optional<std::vector<graph::Tensor>> run(graph::Graph graph,
                                                const std::vector<graph::Tensor>& inputs) const;

 private:
  graph::Tensor cast(const graph::Tensor& tensor, graph::DataType type) const;

  graph::Evaluator evaluate_;
};

/// What ONNX's inference says of each output that is not left out; nullopt where it refuses the
/// node or says nothing of one.
std::optional<std::vector<std::pair<graph::ValueId, graph::OutputType>>> inferred_outputs(
    const graph::Graph& graph, const graph::Node& node);

/// The place of a value among a node's inputs or outputs.
int place_of(graph::ValueId value, const std::vector<graph::ValueId>& values);

/// Whether both are the same numbers, but for rounding in arithmetic of this type on numbers of the
/// size that `expected` has. NaN equals NaN.
bool agree(const Numbers& expected, const Numbers& found, graph::DataType type);

/// The elements in these ranges, one a dimension.
Numbers cut(const Numbers& numbers, const std::vector<Range>& ranges);
Numbers reduced(const std::vector<Numbers>& parts, Reduce reduce);

}  // namespace autopar::sharding
