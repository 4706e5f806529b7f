#include "sharding/discovery/shard_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autopar::sharding {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

/// Whether ONNX infers what the graph says of the node's outputs.
bool is_as_inferred(const Graph& graph, const graph::Node& node) {
  const auto inferred = inferred_outputs(graph, node);
  return inferred && std::ranges::all_of(*inferred, [&](const auto& output) {
           const auto& [id, told] = output;
           const graph::Value& value = graph.value(id);
           return told.type == value.type && told.shape.value_or(value.shape) == value.shape;
         });
}

double tolerance_of(DataType type) {
  if (!graph::is_floating_point(type)) return 0;
  if (type == DataType::float64) return 1e-10;
  if (type == DataType::float32) return 1e-4;
  return 3e-2;
}

Numbers numbers_of(const Tensor& doubles) {
  const Tensor copy = doubles.contiguous_copy();
  const auto values = copy.values<double>();
  return {copy.shape(), {values.begin(), values.end()}};
}

Tensor tensor_of(const Numbers& numbers) {
  return Tensor::of<double>(DataType::float64, numbers.shape, numbers.values);
}

}  // namespace

Tensor ShardRunner::cast(const Tensor& tensor, DataType type) const {
  if (tensor.type() == type) return tensor;
  Graph graph;
  graph.opsets[""] = 21;
  graph::Node node{"cast", "Cast", "", {}, {}, {{"to", static_cast<std::int64_t>(type)}}};
  node.inputs = {graph.add_constant("from", tensor.contiguous_copy())};
  node.outputs = {graph.add_value({"to", type, tensor.shape(), std::nullopt})};
  graph.outputs = node.outputs;
  graph.nodes.push_back(std::move(node));
  auto results = evaluate_(graph);
  if (!results) {
    fail("no kernel casts {} to {}", graph::name_of(tensor.type()), graph::name_of(type));
  }
  return std::move(results->front());
}

Numbers ShardRunner::numbers(const Tensor& tensor) const {
  return numbers_of(cast(tensor, DataType::float64));
}

Tensor ShardRunner::tensor(DataType type, const Numbers& numbers) const {
  return cast(tensor_of(numbers), type);
}

Tensor ShardRunner::random(DataType type, const Shape& shape, double low, double high,
                           std::mt19937& generator) const {
  Numbers numbers{shape, std::vector<double>(graph::num_elements(shape))};
  for (double& value : numbers.values) {
    value = std::uniform_real_distribution<>(low, high)(generator);
    if (!graph::is_floating_point(type)) value = std::floor(value);
    if (type == DataType::boolean) value = static_cast<double>(generator() % 2);
  }
  return tensor(type, numbers);
}

std::optional<std::vector<Tensor>> ShardRunner::run(Graph graph,
                                                    const std::vector<Tensor>& inputs) const {
  for (const graph::Node& node : graph.nodes) {
    if (!is_as_inferred(graph, node)) return std::nullopt;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    graph.value(graph.inputs[i]).constant = inputs[i].contiguous_copy();
  }
  graph.inputs.clear();
  return evaluate_(graph);
}

std::optional<std::vector<std::pair<ValueId, graph::OutputType>>> inferred_outputs(
    const Graph& graph, const graph::Node& node) {
  std::vector<std::pair<ValueId, graph::OutputType>> outputs;
  try {
    const std::vector<graph::OutputType> inferred = graph::infer_node(graph, node);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == graph::no_value) continue;
      if (o >= inferred.size()) return std::nullopt;
      outputs.emplace_back(node.outputs[o], inferred[o]);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return outputs;
}

int place_of(ValueId value, const std::vector<ValueId>& values) {
  return static_cast<int>(std::ranges::find(values, value) - values.begin());
}

bool agree(const Numbers& expected, const Numbers& found, DataType type) {
  if (expected.shape != found.shape) return false;
  double largest = 1;
  for (const double value : expected.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  const double tolerance = tolerance_of(type) * largest;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = expected.values[i];
    const double b = found.values[i];
    const bool is_same = a == b || (std::isnan(a) && std::isnan(b));
    if (!is_same && !(std::fabs(a - b) <= tolerance)) return false;
  }
  return true;
}

Numbers cut(const Numbers& numbers, const std::vector<Range>& ranges) {
  return numbers_of(tensor_of(numbers).slice(ranges));
}

Numbers reduced(const std::vector<Numbers>& parts, Reduce reduce) {
  Numbers result = parts.front();
  const auto combined = [reduce](double value, double other) {
    if (reduce == Reduce::max) return std::max(value, other);
    return reduce == Reduce::min ? std::min(value, other) : value + other;
  };
  for (const Numbers& part : std::span(parts).subspan(1))
    std::ranges::transform(result.values, part.values, result.values.begin(), combined);
  if (reduce == Reduce::mean) {
    for (double& value : result.values) value /= static_cast<double>(parts.size());
  }
  return result;
}

}  // namespace autopar::sharding
