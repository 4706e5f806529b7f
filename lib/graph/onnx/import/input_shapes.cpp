#include "graph/onnx/import/input_shapes.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

#include "graph/onnx/import/assumed_shapes.h"
#include "graph/state.h"

namespace autopar::graph {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

std::string text_of(const Dimension& dim) {
  if (is_fixed(dim)) return std::to_string(dim.dim_value());
  return dim.dim_param().empty() ? "?" : dim.dim_param();
}

/// The symbol, or what an unnamed dimension is called.
std::string symbol_of(const onnx::ValueInfoProto& input, int dimension) {
  const auto& dim = input.type().tensor_type().shape().dim(dimension);
  return dim.dim_param().empty() ? name_of_unnamed(input.name(), dimension) : dim.dim_param();
}

std::string text_of(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& dim : shape.dim()) dims.push_back(text_of(dim));
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

/// nullopt where the dimension is unbound.
std::optional<std::int64_t> extent_of(const Dimension& dim, const Symbols& symbols) {
  return is_fixed(dim) ? dim.dim_value() : symbols.extent_of(dim.dim_param());
}

/// A command line that the user may copy: what is bound, and for the rest what would be assumed.
std::string example_bindings(const ModelInputs& inputs, const BoundInputs& bound) {
  Symbols symbols = bound.symbols;
  for (const Assumption& each : bound.assumed) symbols.bind(each.name, each.extent, "");
  Symbols told = bound.symbols;
  std::vector<std::string> examples;
  for (const auto* input : inputs) {
    const auto& type = input->type().tensor_type();
    Shape extents;
    bool is_new = !type.has_shape();
    for (const auto& dim : type.shape().dim()) {
      const std::string symbol = symbol_of(*input, static_cast<int>(extents.size()));
      const auto known = is_fixed(dim) ? std::optional(dim.dim_value()) : told.extent_of(symbol);
      const auto& several = bound.symbols.bindings_of(symbol);
      const auto first = several.empty() ? symbols.extent_of(symbol) : several.front().extent;
      extents.push_back(known.value_or(first.value_or(assumed_extent)));
      if (known) continue;
      is_new = true;
      told.bind(symbol, extents.back(), "");
    }
    if (is_new)
      examples.push_back(fmt::format("--shape {}={}", input->name(),
                                     extents.empty() ? "1x128" : to_string(extents)));
  }
  return fmt::format("{}", fmt::join(examples, " "));
}

[[noreturn]] void refuse_dimensions(const onnx::ValueInfoProto& input, const GivenShape& given,
                                    bool is_of_tensor) {
  const auto& shape = input.type().tensor_type().shape();
  if (is_of_tensor)
    fail("input '{}' is {}, but the model takes {} dimensions: {}", input.name(),
         to_string(given.shape), shape.dim_size(), text_of(shape));
  fail("--shape {} has {} dimensions, but the model's input '{}' has {}: {}", given.option,
       given.shape.size(), input.name(), shape.dim_size(), text_of(shape));
}

[[noreturn]] void refuse_extent(const onnx::ValueInfoProto& input, int dimension,
                                const GivenShape& given, bool is_of_tensor) {
  const auto& shape = input.type().tensor_type().shape();
  const std::int64_t extent = given.shape[static_cast<std::size_t>(dimension)];
  if (is_of_tensor)
    fail("input '{}' is {}, but the model fixes dimension {} to {}: {}", input.name(),
         to_string(given.shape), dimension, shape.dim(dimension).dim_value(), text_of(shape));
  fail("--shape {} says {} for dimension {} of input '{}', but the model fixes it to {}: {}",
       given.option, extent, dimension, input.name(), shape.dim(dimension).dim_value(),
       text_of(shape));
}

/// Takes the extents that an input is given for the symbols of its shape.
void collect_symbols(const onnx::ValueInfoProto& input, const GivenShape& given,
                     BoundInputs& bound) {
  const auto& shape = input.type().tensor_type().shape();
  if (input.type().tensor_type().has_shape() && shape.dim_size() != std::ssize(given.shape))
    refuse_dimensions(input, given, bound.are_of_tensors);
  for (int d = 0; d < shape.dim_size(); ++d) {
    const auto& dim = shape.dim(d);
    const std::int64_t extent = given.shape[static_cast<std::size_t>(d)];
    if (is_fixed(dim) && dim.dim_value() != extent)
      refuse_extent(input, d, given, bound.are_of_tensors);
    if (!is_fixed(dim) && !dim.dim_param().empty())
      bound.symbols.bind(dim.dim_param(), extent, input.name());
  }
}

/// A model may be loaded several times, as for its microbatches, and ranks load it side by side.
void warn_once(const std::string& what, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(what).second) spdlog::warn("{}", text);
}

/// What is warned of once: of tensors, whose extents are as many as requests, where it is.
void warn_once(const BoundInputs& bound, const std::string& where, const std::string& text) {
  warn_once(bound.are_of_tensors ? where : text, text);
}

void warn_of_two_extents(const BoundInputs& bound) {
  for (const auto& [symbol, bindings] : bound.symbols.all()) {
    if (bindings.size() < 2) continue;
    std::vector<std::string> extents;
    for (const auto& [extent, input] : bindings)
      extents.push_back(input.empty() ? fmt::format("{} by itself", extent)
                                      : fmt::format("{} in input '{}'", extent, input));
    warn_once(bound, "extents of " + symbol,
              fmt::format("{} '{}' to {}: the model means one extent by it, and may compute "
                          "otherwise than it should",
                          bound.are_of_tensors ? "inputs bind" : "--shape binds", symbol,
                          fmt::join(extents, " and to ")));
  }
}

/// Warns of inputs whose shape says how long they must be, "past_sequence_length +
/// sequence_length".
void warn_of_contradicted_inputs(const ModelInputs& inputs, const BoundInputs& bound) {
  for (const auto* input : inputs) {
    const auto& declared = input->type().tensor_type().shape();
    const Shape& shape = bound.shapes.at(input->name());
    for (int d = 0; d < declared.dim_size(); ++d) {
      const std::int64_t extent = shape[static_cast<std::size_t>(d)];
      const auto wanted = bound.symbols.computed(declared.dim(d).dim_param());
      if (is_fixed(declared.dim(d)) || !wanted || *wanted == extent) continue;
      Shape expected = shape;
      expected[static_cast<std::size_t>(d)] = *wanted;
      warn_once(
          bound, fmt::format("dimension {} of {}", d, input->name()),
          fmt::format("input '{}' has {} in dimension {}, which the model declares as '{}', {} "
                      "here: it will probably refuse that or compute with a part; give {}{}={}",
                      input->name(), extent, d, declared.dim(d).dim_param(), *wanted,
                      bound.are_of_tensors ? "" : "--shape ", input->name(), to_string(expected)));
    }
  }
}

/// nullopt where a dimension is unbound.
std::optional<Shape> resolve(const onnx::ValueInfoProto& input, const Symbols& symbols) {
  const auto& type = input.type().tensor_type();
  if (!type.has_shape()) return std::nullopt;
  Shape shape;
  for (int d = 0; d < type.shape().dim_size(); ++d) {
    const auto& dim = type.shape().dim(d);
    const auto extent =
        is_fixed(dim) ? std::optional(dim.dim_value()) : symbols.extent_of(symbol_of(input, d));
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

/// What is unbound, and what to give.
std::string unbound_text(const ModelInputs& inputs, const BoundInputs& bound,
                         std::string_view where) {
  std::vector<std::string> unbound;
  for (const auto* input : inputs)
    unbound.push_back("input " + describe_unbound(*input, bound.symbols));
  return fmt::format("{}: {}: give {}extents, for example {}", where, fmt::join(unbound, ", "),
                     inputs.size() > 1 ? "" : "its ", example_bindings(inputs, bound));
}

/// The inputs without a shape in what is bound.
ModelInputs unbound_inputs(const ModelInputs& inputs, const BoundInputs& bound) {
  ModelInputs unbound;
  for (const auto* input : inputs)
    if (!bound.shapes.contains(input->name()) && input->type().has_tensor_type())
      unbound.push_back(input);
  return unbound;
}

void take_shape(const onnx::ValueInfoProto& input, const GivenShape& given, BoundInputs& bound) {
  bound.shapes.emplace(input.name(), given.shape);
  collect_symbols(input, given, bound);
}

void check_is_tensor(const onnx::ValueInfoProto& input, std::string_view where) {
  if (!input.type().has_tensor_type())
    fail(
        "{}: input '{}' is no tensor: sequences, maps, optional and sparse values are not "
        "supported",
        where, input.name());
}

/// Finds shapes by symbols for inputs that have none.
void resolve_others(const ModelInputs& inputs, BoundInputs& bound) {
  for (const auto* input : unbound_inputs(inputs, bound))
    if (auto shape = resolve(*input, bound.symbols))
      bound.shapes.emplace(input->name(), std::move(*shape));
}

/// Takes what is given to inputs and symbols.
BoundInputs take_given(const ModelInputs& inputs, const GivenExtents& given, bool are_of_tensors,
                       std::string_view where, Problems& problems) {
  BoundInputs bound{.are_of_tensors = are_of_tensors};
  for (const auto& [symbol, extent] : given.symbols) bound.symbols.bind(symbol, extent, "");
  std::set<std::string> wrong;  // a glob that does not fit many inputs is told of once
  for (const auto* input : inputs) {
    if (!problems.collect([&] { check_is_tensor(*input, where); })) continue;
    const auto shape = given.inputs.find(input->name());
    if (shape == given.inputs.end()) continue;
    try {
      take_shape(*input, shape->second, bound);
    } catch (const Error& error) {
      if (wrong.insert(shape->second.option).second) problems.add("{}", error.what());
    }
  }
  resolve_others(inputs, bound);
  return bound;
}

/// Binds inputs and their symbols; what is wrong goes to `problems`.
BoundInputs bind_shapes(const onnx::GraphProto& graph, const ModelInputs& inputs,
                        const ShapeBindings& bindings, bool are_of_tensors, std::string_view where,
                        Problems& problems) {
  const GivenExtents given = sort_bindings(inputs, bindings, where, problems);
  BoundInputs bound = take_given(inputs, given, are_of_tensors, where, problems);
  bound.assumed = assume_the_rest(inputs, bound);
  const BoundInputs whole = with_assumed(graph, bound, bound.assumed);
  // They have no number of dimensions, or a symbol of several extents.
  const ModelInputs unbound = unbound_inputs(inputs, whole);
  if (unbound.size() > given.unknown.size())  // else they are those that the names mean
    problems.add("{}", unbound_text(unbound, bound, where));
  for (const auto& [name, shape] : whole.shapes)
    if (!is_possible(shape))
      problems.add("{}: input '{}' has the impossible shape {}: give a smaller one{}", where, name,
                   to_string(shape), are_of_tensors ? "" : " with --shape");
  return bound;
}

/// A reason without the file, which the line that it is part of names.
std::string first_line(const Error& reason, const std::string& where) {
  const auto* several = dynamic_cast<const SeveralErrors*>(&reason);
  const std::string line = several != nullptr ? several->lines().front() : reason.what();
  const std::string prefix = where + ": ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

}  // namespace

bool is_fixed(const Dimension& dim) { return dim.has_dim_value() && dim.dim_value() >= 0; }

ModelInputs free_inputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> initialized;
  for (const auto& initializer : graph.initializer()) initialized.insert(initializer.name());
  ModelInputs result;
  for (const auto& input : graph.input())
    if (!initialized.contains(input.name())) result.push_back(&input);
  return result;
}

BoundInputs bind_inputs(const onnx::GraphProto& graph, const ImportOptions& options,
                        std::string_view where) {
  const ModelInputs inputs = free_inputs(graph);
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
  BoundInputs given =
      bind_shapes(graph, inputs, bindings, options.shapes_are_of_tensors, where, problems);
  warn_of_two_extents(given);
  problems.throw_if_any();
  return given;
}

BoundInputs with_assumed(const onnx::GraphProto& graph, const BoundInputs& given,
                         const Assumptions& assumed) {
  BoundInputs bound = given;
  bound.assumed = assumed;
  for (const Assumption& each : assumed) bound.symbols.bind(each.name, each.extent, "");
  resolve_others(free_inputs(graph), bound);
  return bound;
}

std::vector<ContradictedOutput> contradicted_outputs(
    const onnx::GraphProto& graph, const BoundInputs& bound,
    const std::function<std::optional<Shape>(const std::string& output)>& shape_of) {
  std::vector<ContradictedOutput> contradicted;
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
      contradicted.push_back({output.name(), d, extent, symbol, bindings.front()});
    }
  }
  return contradicted;
}

void warn_of_contradictions(const onnx::GraphProto& graph, const BoundInputs& bound,
                            const std::vector<ContradictedOutput>& outputs) {
  warn_of_contradicted_inputs(free_inputs(graph), bound);
  for (const auto& [output, dimension, extent, symbol, binding] : outputs) {
    if (std::ranges::find(bound.assumed, symbol, &Assumption::name) != bound.assumed.end())
      continue;
    const std::string by =
        binding.input.empty() ? std::string("--shape") : fmt::format("input '{}'", binding.input);
    warn_once(
        bound, "output of " + symbol,
        fmt::format("{} binds '{}' to {}, but output '{}', which has it in dimension {}, comes out "
                    "with {}: "
                    "the model will probably refuse that or compute with a part; give {} there",
                    by, symbol, binding.extent, output, dimension, extent,
                    binding.input.empty() ? fmt::format("it {}", extent)
                                          : fmt::format("'{}' {}", binding.input, extent)));
  }
}

void refuse_assumed(const onnx::GraphProto& graph, const BoundInputs& given,
                    const Assumptions& assumed, const Error& reason, const std::string& where) {
  std::vector<std::string> names;
  for (const Assumption& each : assumed)
    names.push_back(fmt::format("'{}' {}", each.name, each.extent));
  const ModelInputs unbound = unbound_inputs(free_inputs(graph), given);
  fail("{}: {}; unbound and assumed: {}: give extents that fit, for example {}", where,
       first_line(reason, where), fmt::join(names, ", "), example_bindings(unbound, given));
}

std::pair<std::string, Shape> parse_shape_binding(std::string_view text) {
  const auto refuse = [&text] {
    fail(
        "--shape {}: expected NAME=EXTENTS with extents of 0 or more, for example input_ids=1x128 "
        "or "
        "batch=1",
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
