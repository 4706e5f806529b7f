#include "graph/onnx/import/shape_names.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "graph/onnx/import/symbols.h"

namespace autopar::graph {
namespace {

/// Names that one line lists at most.
constexpr std::size_t most_listed = 12;

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

Names names_of(const ModelInputs& inputs) {
  Names names;
  for (const auto* input : inputs) names.push_back(input->name());
  return names;
}

std::string listed(const Names& names) {
  const std::size_t shown = std::min(names.size(), most_listed);
  const Names first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

/// The names of those that are fewest characters away, where those are few.
Names nearest(const std::string& name, const Names& known) {
  std::size_t least = std::max<std::size_t>(name.size() / 3, 1);
  Names found;
  for (const std::string& each : known) {
    const std::size_t distance = edit_distance(name, each);
    if (distance > least) continue;
    if (distance < least) found.clear();
    least = distance;
    found.push_back(each);
  }
  return found;
}

/// What one line tells of bindings whose names are nothing of the model.
void add_unknown(const ShapeBindings& unknown, const Names& inputs, const Names& symbols,
                 std::string_view where, Problems& problems) {
  Names known = inputs;
  known.insert(known.end(), symbols.begin(), symbols.end());
  Names options;
  std::string meant;
  for (const auto& [name, shape] : unknown) {
    options.push_back(fmt::format("--shape {}={}", name, to_string(shape)));
    const Names near = nearest(name, known);
    if (!near.empty()) meant += fmt::format("; nearest to '{}': {}", name, listed(near));
  }
  problems.add("{} names no input or symbol of {}: its inputs are {}{}{}", fmt::join(options, ", "),
               where, listed(inputs),
               symbols.empty() ? "" : fmt::format(", its symbols {}", listed(symbols)), meant);
}

void give_by_glob(const std::string& name, const GivenShape& given, GivenExtents& extents,
                  Problems& problems) {
  const auto [known, is_new] = extents.inputs.try_emplace(name, given);
  if (!is_new && known->second.shape != given.shape)
    problems.add("--shape {} and --shape {} both give input '{}' a shape: give it one",
                 known->second.option, given.option, name);
}

}  // namespace

Names symbols_of(const ModelInputs& inputs) {
  Names symbols;
  const auto add = [&](const std::string& symbol) {
    if (!symbol.empty() && !contains(symbols, symbol)) symbols.push_back(symbol);
  };
  for (const auto* input : inputs) {
    for (const auto& dim : input->type().tensor_type().shape().dim()) {
      add(dim.dim_param());
      for (const std::string& part : symbols_in(dim.dim_param())) add(part);
    }
  }
  return symbols;
}

GivenExtents sort_bindings(const ModelInputs& inputs, const ShapeBindings& bindings,
                           std::string_view where, Problems& problems) {
  const Names names = names_of(inputs);
  const Names symbols = symbols_of(inputs);
  GivenExtents extents;
  ShapeBindings globs;
  for (const auto& [name, shape] : bindings) {
    const std::string option = fmt::format("{}={}", name, to_string(shape));
    if (contains(names, name))
      extents.inputs.emplace(name, GivenShape{option, shape});
    else if (contains(symbols, name) && shape.size() == 1)
      extents.symbols.emplace(name, shape.front());
    else if (contains(symbols, name))
      problems.add("--shape {}: '{}' is a symbol of {}: give it one extent", option, name, where);
    else if (is_glob(name) && std::ranges::any_of(names, [&glob = name](const std::string& input) {
               return matches_glob(glob, input);
             }))
      globs.emplace(name, shape);
    else
      extents.unknown.emplace(name, shape);
  }
  GivenExtents by_globs;
  for (const auto& [glob, shape] : globs) {
    const GivenShape given{fmt::format("{}={}", glob, to_string(shape)), shape};
    for (const std::string& name : names)
      if (matches_glob(glob, name) && !extents.inputs.contains(name))
        give_by_glob(name, given, by_globs, problems);
  }
  extents.inputs.merge(by_globs.inputs);
  if (!extents.unknown.empty()) add_unknown(extents.unknown, names, symbols, where, problems);
  return extents;
}

}  // namespace autopar::graph
