#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executable.h"
#include "runtime/kernels/common/half.h"

/// One operator, run as a graph of one node.
namespace autopar::runtime::testing {

using graph::Attribute;
using graph::Tensor;

/// What run_node runs on: null for the CPU. Each test program says its own.
Device* device_under_test();

struct NodeRun {
  std::string op_type;
  std::map<std::string, Attribute> attributes;
  /// nullopt is a left-out optional input.
  std::vector<std::optional<Tensor>> inputs;
  std::vector<std::pair<DataType, Shape>> outputs;
  /// Inputs that are constants of the graph, by index; the others are graph inputs.
  std::vector<std::size_t> constants = {};
  int threads = 1;
  std::string domain = {};
};

inline graph::Graph make_graph(const NodeRun& run) {
  graph::Graph graph;
  graph.opsets = {{"", 20}};
  graph::Node node{"the_node", run.op_type, run.domain, {}, {}, run.attributes};
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (!run.inputs[i]) {
      node.inputs.push_back(graph::no_value);
      continue;
    }
    const Tensor& tensor = *run.inputs[i];
    const bool is_constant =
        std::find(run.constants.begin(), run.constants.end(), i) != run.constants.end();
    graph::Value value{"in" + std::to_string(i), tensor.type(), tensor.shape(), std::nullopt};
    if (is_constant) value.constant = tensor;
    node.inputs.push_back(graph.add_value(std::move(value)));
    if (!is_constant) graph.inputs.push_back(node.inputs.back());
  }
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    node.outputs.push_back(graph.add_value(
        {"out" + std::to_string(i), run.outputs[i].first, run.outputs[i].second, std::nullopt}));
    graph.outputs.push_back(node.outputs.back());
  }
  graph.nodes.push_back(std::move(node));
  return graph;
}

/// Writes the inputs, runs and reads the outputs.
inline std::vector<Tensor> run(Executable& executable, const graph::Graph& graph,
                               const std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) executable.write_input(i, inputs[i]);
  executable.run();
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    outputs.push_back(executable.read_output(i));
  return outputs;
}

inline std::vector<Tensor> run_node(const NodeRun& node_run) {
  const graph::Graph graph = make_graph(node_run);
  Executable executable(graph, {.threads = node_run.threads, .device = device_under_test()});
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < node_run.inputs.size(); ++i) {
    const bool is_constant = std::find(node_run.constants.begin(), node_run.constants.end(), i) !=
                             node_run.constants.end();
    if (node_run.inputs[i] && !is_constant) inputs.push_back(*node_run.inputs[i]);
  }
  return run(executable, graph, inputs);
}

/// An element of any tensor of numbers or bools.
inline double number_at(const Tensor& tensor, std::size_t i) {
  switch (tensor.type()) {
    case DataType::float32:
      return tensor.values<float>()[i];
    case DataType::float64:
      return tensor.values<double>()[i];
    case DataType::float16:
      return to_float(tensor.values<Float16>()[i]);
    case DataType::bfloat16:
      return to_float(tensor.values<BFloat16>()[i]);
    case DataType::int8:
      return tensor.values<std::int8_t>()[i];
    case DataType::uint8:
      return tensor.values<std::uint8_t>()[i];
    case DataType::int64:
      return static_cast<double>(tensor.values<std::int64_t>()[i]);
    default:
      return static_cast<double>(tensor.to_int64s()[i]);
  }
}

inline std::vector<double> doubles(const Tensor& tensor) {
  if (!graph::is_floating_point(tensor.type())) {
    const auto integers = tensor.to_int64s();
    return {integers.begin(), integers.end()};
  }
  std::vector<double> result(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = number_at(tensor, i);
  return result;
}

template <typename T>
Tensor converted(DataType type, const Shape& shape, const std::vector<double>& values) {
  std::vector<T> elements;
  for (const double value : values) {
    if constexpr (std::is_same_v<T, Float16>)
      elements.push_back(to_float16(static_cast<float>(value)));
    else if constexpr (std::is_same_v<T, BFloat16>)
      elements.push_back(to_bfloat16(static_cast<float>(value)));
    else
      elements.push_back(static_cast<T>(value));
  }
  return Tensor::of<T>(type, shape, elements);
}

/// A tensor of any type from numbers that it can hold.
inline Tensor tensor_of(DataType type, const Shape& shape, const std::vector<double>& values) {
  switch (type) {
    case DataType::float32:
      return converted<float>(type, shape, values);
    case DataType::float64:
      return converted<double>(type, shape, values);
    case DataType::float16:
      return converted<Float16>(type, shape, values);
    case DataType::bfloat16:
      return converted<BFloat16>(type, shape, values);
    case DataType::int8:
      return converted<std::int8_t>(type, shape, values);
    case DataType::int16:
      return converted<std::int16_t>(type, shape, values);
    case DataType::int32:
      return converted<std::int32_t>(type, shape, values);
    case DataType::int64:
      return converted<std::int64_t>(type, shape, values);
    case DataType::uint16:
      return converted<std::uint16_t>(type, shape, values);
    case DataType::uint32:
      return converted<std::uint32_t>(type, shape, values);
    case DataType::uint64:
      return converted<std::uint64_t>(type, shape, values);
    default:
      return converted<std::uint8_t>(type, shape, values);
  }
}

/// Random numbers in [low, high], whole ones for integer types, 0 and 1 for bool.
inline Tensor random_in(DataType type, const Shape& shape, std::mt19937& random, double low,
                        double high) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  for (double& value : values) {
    value = std::uniform_real_distribution<>(low, high)(random);
    if (!graph::is_floating_point(type)) value = std::floor(value);
    if (type == DataType::boolean) value = static_cast<double>(random() % 2);
  }
  return tensor_of(type, shape, values);
}

inline const std::vector<DataType> float_types = {DataType::float32, DataType::float64,
                                                  DataType::float16, DataType::bfloat16};
inline const std::vector<DataType> integer_types = {
    DataType::int8,  DataType::int16,  DataType::int32,  DataType::int64,
    DataType::uint8, DataType::uint16, DataType::uint32, DataType::uint64};

/// Relative rounding error of a type, with room for float arithmetic in between.
inline double tolerance_of(DataType type) {
  if (type == DataType::float64) return 1e-12;
  if (type == DataType::float32) return 2e-6;
  return type == DataType::float16 ? 1.5e-3 : 1e-2;
}

}  // namespace autopar::runtime::testing
