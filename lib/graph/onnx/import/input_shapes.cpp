#include "graph/onnx/import/input_shapes.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/problems.h"
#include "graph/state.h"

namespace autopar::graph {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;
/// Some exporters write -1 for what they do not know; 0 is an empty dimension.
bool is_fixed(const Dimension& dim) { return dim.has_dim_value() && dim.dim_value() >= 0; }

std::string text_of(const Dimension& dim) {
  if (is_fixed(dim)) return std::to_string(dim.dim_value());
  return dim.dim_param().empty() ? "?" : dim.dim_param();
}

std::string text_of(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& dim : shape.dim()) dims.push_back(text_of(dim));
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

using Inputs = std::vector<const onnx::ValueInfoProto*>;

/// nullopt where the dimension is unbound.
std::optional<std::int64_t> extent_of(const Dimension& dim, const Symbols& symbols) {
  return is_fixed(dim) ? dim.dim_value() : symbols.extent_of(dim.dim_param());
}

/// A command line that the user may copy: what is bound, and for the rest a batch of 1 and extents
/// of 128.
std::string example_bindings(const Inputs& inputs, Symbols symbols) {
  std::vector<std::string> examples;
  for (const auto* input : inputs) {
    const auto& type = input->type().tensor_type();
    Shape extents;
    bool is_new = !type.has_shape();
    for (const auto& dim : type.shape().dim()) {
      const auto known = extent_of(dim, symbols);
      extents.push_back(known.value_or(extents.empty() ? 1 : 128));
      if (known) continue;
      is_new = true;
      if (!dim.dim_param().empty()) symbols.bind(dim.dim_param(), extents.back(), input->name());
    }
    if (is_new)
      examples.push_back(fmt::format("--shape {}={}", input->name(),
                                     extents.empty() ? "1x128" : to_string(extents)));
  }
  return fmt::format("{}", fmt::join(examples, " "));
}

/// Takes one binding's extents for the symbols of its input.
void collect_symbols(const onnx::ValueInfoProto& input, const Shape& binding, Symbols& symbols) {
  const auto& shape = input.type().tensor_type().shape();
  if (input.type().tensor_type().has_shape() && shape.dim_size() != std::ssize(binding))
    fail("--shape {}={} has {} dimensions, but the model's input has {}: {}", input.name(),
         to_string(binding), binding.size(), shape.dim_size(), text_of(shape));
  for (int d = 0; d < shape.dim_size(); ++d) {
    const auto& dim = shape.dim(d);
    const std::int64_t extent = binding[static_cast<std::size_t>(d)];
    if (is_fixed(dim) && dim.dim_value() != extent)
      fail("--shape {}={} says {} for dimension {}, but the model fixes it to {}: {}", input.name(),
           to_string(binding), extent, d, dim.dim_value(), text_of(shape));
    if (!is_fixed(dim) && !dim.dim_param().empty())
      symbols.bind(dim.dim_param(), extent, input.name());
  }
}

/// A model may be loaded several times, as for its microbatches.
void warn_once(const std::string& text) {
  static std::set<std::string> told;
  if (told.insert(text).second) spdlog::warn("{}", text);
}

void warn_of_two_extents(const Symbols& symbols) {
  for (const auto& [symbol, bindings] : symbols.all()) {
    if (bindings.size() < 2) continue;
    std::vector<std::string> extents;
    for (const auto& [extent, input] : bindings)
      extents.push_back(fmt::format("{} in input '{}'", extent, input));
    warn_once(fmt::format(
        "--shape binds '{}' to {}: the model means one extent by it, and may compute otherwise "
        "than it should",
        symbol, fmt::join(extents, " and to ")));
  }
}

/// Warns of inputs whose shape says how long they must be, "past_sequence_length +
/// sequence_length".
void warn_of_contradicted_inputs(const Inputs& inputs, const BoundInputs& bound) {
  for (const auto* input : inputs) {
    const auto& declared = input->type().tensor_type().shape();
    const Shape& shape = bound.shapes.at(input->name());
    for (int d = 0; d < declared.dim_size(); ++d) {
      const std::int64_t extent = shape[static_cast<std::size_t>(d)];
      const auto wanted = bound.symbols.computed(declared.dim(d).dim_param());
      if (is_fixed(declared.dim(d)) || !wanted || *wanted == extent) continue;
      Shape expected = shape;
      expected[static_cast<std::size_t>(d)] = *wanted;
      warn_once(fmt::format(
          "input '{}' has {} in dimension {}, which the model declares as '{}', {} here: it will "
          "probably refuse that or compute with a part; give --shape {}={}",
          input->name(), extent, d, declared.dim(d).dim_param(), *wanted, input->name(),
          to_string(expected)));
    }
  }
}

/// nullopt where a dimension is unbound.
std::optional<Shape> resolve(const onnx::ValueInfoProto& input, const Symbols& symbols) {
  const auto& type = input.type().tensor_type();
  if (!type.has_shape()) return std::nullopt;
  Shape shape;
  for (const auto& dim : type.shape().dim()) {
    const auto extent = extent_of(dim, symbols);
    if (!extent) return std::nullopt;
    shape.push_back(*extent);
  }
  return shape;
}

/// "'input_ids' has the shape batchxsequence whose dimensions 'batch' and 'sequence' are unbound".
std::string describe_unbound(const onnx::ValueInfoProto& input, const Symbols& symbols) {
  const auto& type = input.type().tensor_type();
  if (!type.has_shape()) return fmt::format("'{}' has no shape", input.name());
  std::vector<std::string> unbound;
  for (const auto& dim : type.shape().dim()) {
    const std::string name = fmt::format("'{}'", text_of(dim));
    if (!extent_of(dim, symbols) && std::ranges::find(unbound, name) == unbound.end())
      unbound.push_back(name);
  }
  return fmt::format("'{}' has the shape {} whose {} {} {} unbound", input.name(),
                     text_of(type.shape()), unbound.size() > 1 ? "dimensions" : "dimension",
                     fmt::join(unbound, " and "), unbound.size() > 1 ? "are" : "is");
}

[[noreturn]] void refuse_unbound(const Inputs& inputs, const Symbols& symbols,
                                 std::string_view where) {
  std::vector<std::string> unbound;
  for (const auto* input : inputs) unbound.push_back("input " + describe_unbound(*input, symbols));
  fail("{}: {}: give {}extents, for example {}", where, fmt::join(unbound, ", "),
       inputs.size() > 1 ? "" : "its ", example_bindings(inputs, symbols));
}

/// Takes the shape that the options give the input, if they do.
void take_binding(const onnx::ValueInfoProto& input, const ShapeBindings& bindings,
                  std::string_view where, BoundInputs& bound) {
  if (!input.type().has_tensor_type())
    fail(
        "{}: input '{}' is no tensor: sequences, maps, optional and sparse values are not "
        "supported",
        where, input.name());
  const auto binding = bindings.find(input.name());
  if (binding == bindings.end()) return;
  bound.shapes.emplace(input.name(), binding->second);
  collect_symbols(input, binding->second, bound.symbols);
}

/// Bindings whose names no input has, "x=1x2".
std::vector<std::string> unknown_bindings(const Inputs& inputs, const ShapeBindings& bindings) {
  std::vector<std::string> unknown;
  for (const auto& binding : bindings)
    if (std::ranges::find(inputs, binding.first, &onnx::ValueInfoProto::name) == inputs.end())
      unknown.push_back(fmt::format("{}={}", binding.first, to_string(binding.second)));
  return unknown;
}

/// Finds the shapes of inputs that no option binds; returns those whose symbols are neither known
/// nor `excused`.
Inputs resolve_others(const Inputs& inputs, const std::set<std::string>& excused,
                      BoundInputs& bound) {
  const auto is_excused = [&](const onnx::TypeProto::Tensor& type) {
    return type.has_shape() && std::ranges::all_of(type.shape().dim(), [&](const auto& dim) {
             return extent_of(dim, bound.symbols) || excused.contains(dim.dim_param());
           });
  };
  Inputs unbound;
  for (const auto* input : inputs) {
    if (!input->type().has_tensor_type() || bound.shapes.contains(input->name())) continue;
    if (auto shape = resolve(*input, bound.symbols))
      bound.shapes.emplace(input->name(), std::move(*shape));
    else if (!is_excused(input->type().tensor_type()))
      unbound.push_back(input);
  }
  return unbound;
}

/// Binds inputs and their symbols; throws all that is wrong.
BoundInputs bind_all(const Inputs& inputs, const ShapeBindings& bindings, std::string_view where) {
  BoundInputs bound;
  Problems problems;
  std::set<std::string> excused;  // symbols of inputs whose options are wrong
  for (const auto* input : inputs) {
    if (problems.collect([&] { take_binding(*input, bindings, where, bound); })) continue;
    for (const auto& dim : input->type().tensor_type().shape().dim())
      excused.insert(dim.dim_param());
  }
  const std::vector<std::string> unknown = unknown_bindings(inputs, bindings);
  if (!unknown.empty()) {
    std::vector<std::string> names;
    for (const auto* input : inputs) names.push_back(input->name());
    problems.add("--shape {} names no input of {}: its inputs are {}",
                 fmt::join(unknown, ", --shape "), where, fmt::join(names, ", "));
  }
  const Inputs unbound = resolve_others(inputs, excused, bound);
  if (unbound.size() > unknown.size())  // else they are those that the names mean
    problems.collect([&] { refuse_unbound(unbound, bound.symbols, where); });
  for (const auto& [name, shape] : bound.shapes)
    if (!is_possible(shape))
      problems.add("{}: input '{}' has the impossible shape {}: give a smaller one with --shape",
                   where, name, to_string(shape));
  problems.throw_if_any();
  return bound;
}

}  // namespace

Inputs free_inputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> initialized;
  for (const auto& initializer : graph.initializer()) initialized.insert(initializer.name());
  Inputs result;
  for (const auto& input : graph.input())
    if (!initialized.contains(input.name())) result.push_back(&input);
  return result;
}

BoundInputs bind_inputs(const onnx::GraphProto& graph, const ImportOptions& options,
                        std::string_view where) {
  const Inputs inputs = free_inputs(graph);
  ShapeBindings bindings = options.shapes;
  Problems problems;
  for (const auto& [name, tensor] : options.constants) {
    if (std::ranges::find(graph.input(), name, &onnx::ValueInfoProto::name) == graph.input().end())
      problems.add("--constant {} names no input of {}", name, where);
    else
      bindings.insert_or_assign(name, tensor.shape());
  }
  StateNames names;
  for (const auto& output : graph.output()) names.outputs.push_back(output.name());
  for (const auto* input : inputs) names.inputs.push_back(input->name());
  for (const std::string& pattern : options.loops)
    problems.collect([&] { match_state_names(names, pattern); });
  BoundInputs bound;
  problems.collect([&] {
    bound = bind_all(inputs, bindings, where);
    warn_of_two_extents(bound.symbols);
    warn_of_contradicted_inputs(inputs, bound);
  });
  problems.throw_if_any();
  return bound;
}

void warn_of_contradicted_outputs(
    const onnx::GraphProto& graph, const BoundInputs& bound,
    const std::function<std::optional<Shape>(const std::string& output)>& shape_of) {
  std::set<std::string> told;  // a symbol is wrong once, in however many outputs
  for (const auto& output : graph.output()) {
    const auto& declared = output.type().tensor_type().shape();
    const std::optional<Shape> shape = shape_of(output.name());
    if (!shape || declared.dim_size() != std::ssize(*shape)) continue;
    for (int d = 0; d < declared.dim_size(); ++d) {
      const std::string& symbol = declared.dim(d).dim_param();
      const auto& bindings = bound.symbols.bindings_of(symbol);
      const std::int64_t extent = (*shape)[static_cast<std::size_t>(d)];
      if (is_fixed(declared.dim(d)) || bindings.size() != 1 || bindings.front().extent == extent ||
          bound.symbols.computed(symbol) || !told.insert(symbol).second)
        continue;
      warn_once(fmt::format(
          "input '{}' binds '{}' to {}, but output '{}', which has it in dimension {}, comes out "
          "with {}: the model will probably refuse that or compute with a part; give '{}' {} there",
          bindings.front().input, symbol, bindings.front().extent, output.name(), d, extent,
          bindings.front().input, extent));
    }
  }
}

std::pair<std::string, Shape> parse_shape_binding(std::string_view text) {
  const auto refuse = [&text] {
    fail("--shape {}: expected NAME=EXTENTS with extents of 0 or more, for example input_ids=1x128",
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
    if (error != std::errc{} || stop != extents.data() + end || extent < 0) refuse();
    shape.push_back(extent);
    at = end + 1;
  }
  return {std::string(text.substr(0, equals)), shape};
}

}  // namespace autopar::graph
