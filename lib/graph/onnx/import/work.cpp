#include "graph/onnx/import/work.h"

#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <unordered_map>

#include "graph/loop_body.h"
#include "graph/onnx/einsum_equation.h"
#include "graph/onnx/schema_registry.h"

namespace autopar::graph {
namespace {

/// Shapes of a node's inputs and outputs; empty where one is left out or nothing is known of it.
struct Shapes {
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;

  Shape input(std::size_t i) const { return i < inputs.size() ? inputs[i] : Shape{}; }
};

double elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0, [](double product, std::int64_t extent) {
    return product * static_cast<double>(extent);
  });
}

double elements_made(const Shapes& shapes) {
  double made = 0;
  for (const Shape& output : shapes.outputs) made += elements(output);
  return made;
}

double first_extent(const Shape& shape) {
  return shape.empty() ? 1 : static_cast<double>(shape.front());
}

/// Each element of the output is a sum over the last dimension of the first input.
double of_product(const Shapes& shapes) {
  const Shape rows = shapes.input(0);
  return elements_made(shapes) * (rows.empty() ? 1 : static_cast<double>(rows.back()));
}

/// Like of_product, but either matrix may be transposed.
double of_gemm(const Shapes& shapes) {
  const double rows = shapes.outputs.empty() ? 0 : first_extent(shapes.outputs.front());
  return rows > 0 ? elements_made(shapes) * elements(shapes.input(0)) / rows : 0;
}

/// Each element of the output is a sum over one output channel's weights, the input `weights`.
template <std::size_t weights>
double of_convolution(const Shapes& shapes) {
  const double channels = first_extent(shapes.input(weights));
  return channels > 0 ? elements_made(shapes) * elements(shapes.input(weights)) / channels : 0;
}

/// Each element of the input goes into one of each input channel's weights.
double of_transposed_convolution(const Shapes& shapes) {
  const double channels = first_extent(shapes.input(1));
  return channels > 0 ? elements(shapes.input(0)) * elements(shapes.input(1)) / channels : 0;
}

/// Each of a sequence's vectors, and a state as often, goes through all weights.
double of_recurrence(const Shapes& shapes) {
  const Shape sequence = shapes.input(0);
  const double size = sequence.empty() ? 1 : static_cast<double>(sequence.back());
  return size > 0
             ? elements(sequence) / size * (elements(shapes.input(1)) + elements(shapes.input(2)))
             : 0;
}

using Work = double (*)(const Shapes& shapes);

/// elements_made for operators that make one operation an element.
Work work_of(std::string_view op_type) {
  static const std::map<std::string_view, Work> table = {
      {"Conv", of_convolution<1>},
      {"ConvInteger", of_convolution<1>},
      {"ConvTranspose", of_transposed_convolution},
      {"DeformConv", of_convolution<1>},
      {"GRU", of_recurrence},
      {"Gemm", of_gemm},
      {"LSTM", of_recurrence},
      {"MatMul", of_product},
      {"MatMulInteger", of_product},
      {"MatMulNBits", of_product},
      {"QLinearConv", of_convolution<3>},
      {"QLinearMatMul", of_product},
      {"RNN", of_recurrence},
  };
  const auto found = table.find(op_type);
  return found == table.end() ? elements_made : found->second;
}

/// What ONNX's inference finds of a model's shapes, by name: unknown extents as 1.
std::unordered_map<std::string, Shape> least_shapes(const onnx::ModelProto& model) {
  std::unordered_map<std::string, Shape> shapes;
  const auto take = [&](const auto& infos) {
    for (const onnx::ValueInfoProto& info : infos) {
      Shape shape;
      for (const auto& dim : info.type().tensor_type().shape().dim())
        shape.push_back(dim.has_dim_value() ? std::max<std::int64_t>(dim.dim_value(), 0) : 1);
      shapes.emplace(info.name(), std::move(shape));
    }
  };
  take(model.graph().value_info());
  take(model.graph().input());
  take(model.graph().output());
  for (const auto& constant : model.graph().initializer())
    shapes.emplace(constant.name(), Shape(constant.dims().begin(), constant.dims().end()));
  return shapes;
}

}  // namespace

double work(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes) {
    if (node.body) {
      sum += work(node.body->graph) * static_cast<double>(expected_rounds(graph, node).rounds);
      continue;
    }
    const auto shapes_of = [&](const std::vector<ValueId>& ids) {
      std::vector<Shape> shapes;
      for (const ValueId id : ids)
        shapes.push_back(id == no_value ? Shape{} : graph.value(id).shape);
      return shapes;
    };
    sum += work_of(node.op_type)({shapes_of(node.inputs), shapes_of(node.outputs)});
  }
  return sum;
}

double least_work(const Tail& tail) {
  onnx::ModelProto model;
  require(model.ParseFromString(tail.model), "a tail's message is whole");
  try {
    if (has_einsum_equations(model))
      onnx::shape_inference::InferShapes(model, &SchemaRegistry::instance(),
                                         onnx::ShapeInferenceOptions(false, 0, true));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    // What is inferred so far counts; the run tells what is wrong.
  }
  const auto shapes = least_shapes(model);
  const auto shapes_of = [&](const auto& names) {
    std::vector<Shape> found;
    for (const std::string& name : names) {
      const auto known = shapes.find(name);
      found.push_back(known == shapes.end() ? Shape{} : known->second);
    }
    return found;
  };
  double sum = 0;
  for (const auto& node : model.graph().node())
    sum += work_of(node.op_type())({shapes_of(node.input()), shapes_of(node.output())});
  return sum;
}

}  // namespace autopar::graph
