#include "unit/graph/contrib/operator_call.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/contrib/operator_table.h"
#include "graph/onnx/node_to_proto.h"
#include "graph/onnx/onnx_interpreter.h"
#include "graph/onnx/tensor_proto.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"
#include "unit/graph/models.h"

namespace autopar::graph {
namespace {

bool is_native(std::string_view domain, std::string_view op_type) {
  return runtime::cpu_kernels().find(domain, op_type) != nullptr;
}

std::optional<std::vector<Tensor>> evaluate(const Graph& graph) {
  return runtime::evaluate_constants(graph);
}

/// Runs the graph with these tensors in the place of its inputs.
std::vector<Array> run_graph(Graph graph, const std::vector<Tensor>& inputs) {
  REQUIRE(graph.inputs.size() == inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) graph.value(graph.inputs[i]).constant = inputs[i];
  graph.inputs.clear();
  const auto outputs = evaluate(graph);
  REQUIRE(outputs);
  std::vector<Array> arrays;
  for (const Tensor& output : *outputs) arrays.push_back(array_of(output));
  return arrays;
}

template <typename T>
Array array_as(const Tensor& tensor) {
  const Tensor copy = tensor.contiguous_copy();
  const auto values = copy.values<T>();
  return {tensor.shape(), {values.begin(), values.end()}};
}

template <typename T>
Tensor tensor_as(const Array& array, DataType type) {
  std::vector<T> values;
  for (const double value : array.values) values.push_back(static_cast<T>(value));
  return Tensor::of<T>(type, array.shape, values);
}

/// The shape of both, broadcast.
Shape broadcast(Shape a, Shape b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (std::size_t d = 0; d < a.size(); ++d) a[d] = a[d] == 1 ? b[d] : a[d];
  return a;
}

/// The element of `x` that stands at place `at` of a tensor of this shape.
double element(const Array& x, const Shape& shape, std::int64_t at) {
  const Shape strides = row_major_strides(shape);
  const Shape own = row_major_strides(x.shape);
  const std::size_t missing = shape.size() - x.shape.size();
  std::int64_t place = 0;
  for (std::size_t d = missing; d < shape.size(); ++d) {
    const std::int64_t index = at / strides[d] % shape[d];
    if (x.shape[d - missing] != 1) place += index * own[d - missing];
  }
  return x.values[static_cast<std::size_t>(place)];
}

}  // namespace

std::vector<OperatorName>& tested_operators() {
  static std::vector<OperatorName> operators;
  return operators;
}

std::size_t Array::offset(std::initializer_list<std::int64_t> index) const {
  REQUIRE(index.size() == shape.size());
  std::int64_t place = 0;
  std::size_t d = 0;
  for (const std::int64_t i : index) {
    if (i < 0 || i >= shape[d]) FAIL("index " << i << " of dimension " << d);
    place = place * shape[d++] + i;
  }
  return static_cast<std::size_t>(place);
}

Tensor tensor_of(const Array& array, DataType type) {
  switch (type) {
    case DataType::float32:
      return tensor_as<float>(array, type);
    case DataType::float64:
      return tensor_as<double>(array, type);
    case DataType::int64:
      return tensor_as<std::int64_t>(array, type);
    case DataType::int32:
      return tensor_as<std::int32_t>(array, type);
    case DataType::int8:
      return tensor_as<std::int8_t>(array, type);
    case DataType::uint8:
      return tensor_as<std::uint8_t>(array, type);
    default:
      FAIL("no arrays of " << name_of(type));
      return {};
  }
}

Array array_of(const Tensor& tensor) {
  if (tensor.type() == DataType::float32) return array_as<float>(tensor);
  if (tensor.type() == DataType::float64) return array_as<double>(tensor);
  const std::vector<std::int64_t> integers = tensor.to_int64s();
  return {tensor.shape(), {integers.begin(), integers.end()}};
}

Array Draw::numbers(const Shape& shape, double low, double high) {
  Array array(shape);
  for (double& value : array.values)
    value = static_cast<float>(std::uniform_real_distribution<>(low, high)(random_));
  return array;
}

Array Draw::integers(const Shape& shape, int low, int high) {
  Array array(shape);
  for (double& value : array.values) value = std::uniform_int_distribution<>(low, high)(random_);
  return array;
}

Array map(const Array& x, const std::function<double(double)>& f) {
  Array result = x;
  for (double& value : result.values) value = f(value);
  return result;
}

Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  Array result(broadcast(a.shape, b.shape));
  for (std::int64_t i = 0; i < num_elements(result.shape); ++i)
    result.values[static_cast<std::size_t>(i)] =
        f(element(a, result.shape, i), element(b, result.shape, i));
  return result;
}

Array sum(const Array& a, const Array& b) { return zip(a, b, std::plus<>()); }
Array product(const Array& a, const Array& b) { return zip(a, b, std::multiplies<>()); }

Array matmul(const Array& a, const Array& b) {
  REQUIRE(a.extent(1) == b.extent(0));
  Array result({a.extent(0), b.extent(1)});
  for (std::int64_t i = 0; i < a.extent(0); ++i)
    for (std::int64_t j = 0; j < b.extent(1); ++j)
      for (std::int64_t k = 0; k < a.extent(1); ++k) result(i, j) += a(i, k) * b(k, j);
  return result;
}

Array transposed(const Array& a) {
  Array result({a.extent(1), a.extent(0)});
  for (std::int64_t i = 0; i < a.extent(0); ++i)
    for (std::int64_t j = 0; j < a.extent(1); ++j) result(j, i) = a(i, j);
  return result;
}

Array by_row(Array x, const std::function<void(std::vector<double>&)>& f) {
  const auto columns = static_cast<std::size_t>(x.shape.back());
  for (std::size_t begin = 0; begin < x.values.size(); begin += columns) {
    const auto first = x.values.begin() + static_cast<std::ptrdiff_t>(begin);
    std::vector<double> row(first, first + static_cast<std::ptrdiff_t>(columns));
    f(row);
    std::ranges::copy(row, first);
  }
  return x;
}

Array softmax(const Array& x) {
  return by_row(x, [](std::vector<double>& row) {
    const double most = std::ranges::max(row);
    double total = 0;
    for (double& value : row) total += value = std::exp(value - most);
    for (double& value : row) value /= total;
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2; }
double tanh_gelu(double x) {
  return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
}

Call& Call::in(const Array& array, DataType type) {
  inputs_.push_back({tensor_of(array, type), false});
  return *this;
}

Call& Call::constant(const Array& array, DataType type) {
  inputs_.push_back({tensor_of(array, type), true});
  return *this;
}

Call& Call::left_out() {
  inputs_.push_back({});
  return *this;
}

Call& Call::set(const std::string& name, Attribute value) {
  attributes_[name] = std::move(value);
  return *this;
}

std::vector<Array> Call::run(int outputs) const {
  // The model of this call.
  Graph call;
  Node node{"call", op_type_, domain_, {}, {}, attributes_};
  onnx::ModelProto model;
  std::vector<Tensor> given;
  std::map<std::string, Tensor> by_name;
  for (const Input& input : inputs_) {
    if (!input.tensor) {
      node.inputs.push_back(no_value);
      continue;
    }
    const std::string name = fmt::format("in_{}", node.inputs.size());
    const Value value{name, input.tensor->type(), input.tensor->shape(), {}};
    node.inputs.push_back(call.add_value(value));
    if (input.is_constant) {
      *model.mutable_graph()->add_initializer() = tensor_to_proto(name, *input.tensor);
      continue;
    }
    write_type(*model.mutable_graph()->add_input(), value);
    given.push_back(*input.tensor);
    by_name.emplace(name, *input.tensor);
  }
  for (int o = 0; o < outputs; ++o) {
    const std::string name = fmt::format("out_{}", o);
    node.outputs.push_back(call.add_value({name, DataType::undefined, {}, {}}));
    model.mutable_graph()->add_output()->set_name(name);
  }
  *model.mutable_graph()->add_node() = node_to_proto(call, node);
  model.mutable_graph()->set_name("one call");
  model.set_ir_version(10);
  for (const auto& [domain, version] :
       std::map<std::string, std::int64_t>{{"", 21}, {domain_, domain_.empty() ? 21 : version_}}) {
    auto& opset = *model.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  }

  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  ImportOptions options;
  options.evaluate = evaluate;
  options.is_native = is_native;
  const Graph graph = load_onnx(folder / "model.onnx", options);
  for (const Node& each : graph.nodes) {
    const bool is_call = each.domain == domain_ && each.op_type == op_type_;
    CHECK((!is_call || !has_contrib_body(domain_, op_type_)));
  }
  std::vector<Array> found = run_graph(graph, given);
  REQUIRE(static_cast<int>(found.size()) == outputs);

  const auto known = OnnxInterpreter(folder / "model.onnx", evaluate, is_native).run(by_name);
  for (int o = 0; o < outputs; ++o)
    check(array_of(known.at(fmt::format("out_{}", o))), found[static_cast<std::size_t>(o)]);
  return found;
}

void check(const Array& found, const Array& expected, double tolerance) {
  REQUIRE(found.shape == expected.shape);
  double largest = 1;
  for (const double value : expected.values) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    if (std::fabs(found.values[i] - expected.values[i]) <= tolerance * largest) continue;
    FAIL_CHECK("element " << i << " of " << to_string(expected.shape) << " is " << found.values[i]
                          << ", not " << expected.values[i]);
  }
}

}  // namespace autopar::graph
