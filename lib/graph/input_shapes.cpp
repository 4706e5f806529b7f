#include "graph/input_shapes.h"

#include <fmt/ranges.h>

#include <charconv>
#include <unordered_set>

namespace autopar::graph {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;
/// What extent a symbol has, and the input that said so.
using Symbols = std::map<std::string, std::pair<std::int64_t, std::string>>;

/// Some exporters write -1 for what they do not know; 0 is an empty dimension.
bool is_fixed(const Dimension& dim) { return dim.has_dim_value() && dim.dim_value() >= 0; }

std::string spell(const Dimension& dim) {
  if (is_fixed(dim)) return std::to_string(dim.dim_value());
  return dim.dim_param().empty() ? "?" : dim.dim_param();
}

std::string spell(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& dim : shape.dim()) dims.push_back(spell(dim));
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

/// A binding to show to the user: what is known, and a batch of 1 and extents of 128 for the rest.
std::string example_binding(const onnx::ValueInfoProto& input, const Symbols& symbols) {
  std::vector<std::int64_t> extents;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    const auto bound = symbols.find(dim.dim_param());
    if (is_fixed(dim)) {
      extents.push_back(dim.dim_value());
    } else if (!dim.dim_param().empty() && bound != symbols.end()) {
      extents.push_back(bound->second.first);
    } else {
      extents.push_back(extents.empty() ? 1 : 128);
    }
  }
  return fmt::format("--shape {}={}", input.name(),
                     extents.empty() ? "1x128" : fmt::format("{}", fmt::join(extents, "x")));
}

void check_tensor_type(const onnx::ValueInfoProto& input, std::string_view where) {
  if (!input.type().has_tensor_type())
    fail(
        "{}: input '{}' is no tensor: sequences, maps, optional and sparse values are not "
        "supported",
        where, input.name());
}

void check_binding(const onnx::ValueInfoProto& input, const Shape& binding) {
  const auto& type = input.type().tensor_type();
  if (type.has_shape() && type.shape().dim_size() != static_cast<int>(binding.size()))
    fail("--shape {}={} has {} dimensions, but the model's input has {}: {}", input.name(),
         to_string(binding), binding.size(), type.shape().dim_size(), spell(type.shape()));
}

/// Takes one binding's extents for the symbols of its input.
void collect_symbols(const onnx::ValueInfoProto& input, const Shape& binding, Symbols& symbols) {
  const auto& shape = input.type().tensor_type().shape();
  for (int d = 0; d < shape.dim_size(); ++d) {
    const auto& dim = shape.dim(d);
    const std::int64_t extent = binding[static_cast<std::size_t>(d)];
    if (is_fixed(dim) && dim.dim_value() != extent)
      fail("--shape {}={} says {} for dimension {}, but the model fixes it to {}: {}", input.name(),
           to_string(binding), extent, d, dim.dim_value(), spell(shape));
    if (is_fixed(dim) || dim.dim_param().empty()) continue;
    const auto [bound, is_new] = symbols.try_emplace(dim.dim_param(), extent, input.name());
    if (!is_new && bound->second.first != extent)
      fail(
          "--shape binds '{}' to {} in input '{}' and to {} in input '{}': one symbol has one "
          "extent",
          dim.dim_param(), bound->second.first, bound->second.second, extent, input.name());
  }
}

Shape resolve(const onnx::ValueInfoProto& input, const Symbols& symbols, std::string_view where) {
  const auto& type = input.type().tensor_type();
  if (!type.has_shape())
    fail("{}: input '{}' has no shape: give one with {}", where, input.name(),
         example_binding(input, symbols));
  Shape shape;
  for (const auto& dim : type.shape().dim()) {
    const auto bound = symbols.find(dim.dim_param());
    if (is_fixed(dim)) {
      shape.push_back(dim.dim_value());
    } else if (!dim.dim_param().empty() && bound != symbols.end()) {
      shape.push_back(bound->second.first);
    } else {
      fail(
          "{}: input '{}' has the shape {} whose dimension '{}' is unbound: give its extents, for "
          "example {}",
          where, input.name(), spell(type.shape()), spell(dim), example_binding(input, symbols));
    }
  }
  return shape;
}

}  // namespace

std::vector<const onnx::ValueInfoProto*> free_inputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> initialized;
  for (const auto& initializer : graph.initializer()) initialized.insert(initializer.name());
  std::vector<const onnx::ValueInfoProto*> result;
  for (const auto& input : graph.input())
    if (!initialized.contains(input.name())) result.push_back(&input);
  return result;
}

std::map<std::string, Shape> bind_input_shapes(const onnx::GraphProto& graph,
                                               const ShapeBindings& bindings,
                                               std::string_view where) {
  const auto inputs = free_inputs(graph);
  Symbols symbols;
  std::size_t used = 0;
  for (const auto* input : inputs) {
    check_tensor_type(*input, where);
    const auto binding = bindings.find(input->name());
    if (binding == bindings.end()) continue;
    ++used;
    check_binding(*input, binding->second);
    collect_symbols(*input, binding->second, symbols);
  }
  if (used != bindings.size()) {
    std::vector<std::string> names;
    for (const auto* input : inputs) names.push_back(input->name());
    for (const auto& [name, shape] : bindings)
      if (std::ranges::find(names, name) == names.end())
        fail("--shape {}={} names no input of {}: its inputs are {}", name, to_string(shape), where,
             fmt::join(names, ", "));
  }
  std::map<std::string, Shape> shapes;
  for (const auto* input : inputs) {
    const auto binding = bindings.find(input->name());
    Shape& shape = shapes[input->name()];
    shape = binding != bindings.end() ? binding->second : resolve(*input, symbols, where);
    if (!is_possible(shape))
      fail("{}: input '{}' has the impossible shape {}: give a smaller one with --shape", where,
           input->name(), to_string(shape));
  }
  return shapes;
}

std::pair<std::string, Shape> parse_shape_binding(std::string_view text) {
  const auto refuse = [&text] {
    fail("--shape {}: expected NAME=EXTENTS with positive extents, for example input_ids=1x128",
         text);
  };
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) refuse();
  const std::string_view extents = text.substr(equals + 1);
  Shape shape;
  for (std::size_t at = 0; at <= extents.size() && extents != "scalar";) {
    const std::size_t end = std::min(extents.find('x', at), extents.size());
    std::int64_t extent = 0;
    const auto [stop, error] = std::from_chars(extents.data() + at, extents.data() + end, extent);
    if (error != std::errc{} || stop != extents.data() + end || extent <= 0) refuse();
    shape.push_back(extent);
    at = end + 1;
  }
  return {std::string(text.substr(0, equals)), shape};
}

}  // namespace autopar::graph
