#include "graph/onnx/import/assumed_shapes.h"

#include <algorithm>
#include <cctype>

namespace autopar::graph {
namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_called_batch(const std::string& symbol) {
  return in_lower_case(symbol).find("batch") != std::string::npos;
}

bool is_short_for_batch(const std::string& symbol) {
  const std::string name = in_lower_case(symbol);
  return name == "b" || name == "bs" || name == "n";
}

bool is_made_up(const std::string& symbol) {
  return !symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol.back())) != 0;
}

const onnx::TensorShapeProto& shape_of(const onnx::ValueInfoProto& input) {
  return input.type().tensor_type().shape();
}

bool stands_first(const std::string& symbol, const ModelInputs& inputs) {
  return std::ranges::any_of(inputs, [&](const auto* input) {
    return shape_of(*input).dim_size() > 1 && shape_of(*input).dim(0).dim_param() == symbol;
  });
}

/// Tells batches from other dimensions.
class Batches {
 public:
  explicit Batches(const ModelInputs& inputs) : inputs_(inputs) {
    for (const auto is_name : {is_called_batch, is_short_for_batch})
      if (is_name_ == nullptr && std::ranges::any_of(symbols_of(inputs), is_name))
        is_name_ = is_name;
  }

  bool has(const std::string& symbol) const {
    if (is_name_ != nullptr) return is_name_(symbol);
    return is_made_up(symbol) && stands_first(symbol, inputs_);
  }
  bool has_unnamed(const onnx::ValueInfoProto& input, int dimension) const {
    return dimension == 0 && shape_of(input).dim_size() > 1;
  }

 private:
  const ModelInputs& inputs_;
  bool (*is_name_)(const std::string& symbol) = nullptr;  ///< null: none is called so
};

Assumption assumption_of(const std::string& name, bool is_batch) {
  return {.name = name, .is_batch = is_batch, .extent = is_batch ? assumed_batch : assumed_extent};
}

Assumption assumption_of_unnamed(const onnx::ValueInfoProto& input, int dimension, bool is_batch) {
  Assumption assumption = assumption_of(name_of_unnamed(input.name(), dimension), is_batch);
  assumption.is_unnamed = true;
  return assumption;
}

/// The one assumed symbol of the expression; null where it has none or several.
Assumption* only_assumed(const std::string& expression, Assumptions& assumed) {
  Assumption* only = nullptr;
  for (const std::string& symbol : symbols_in(expression)) {
    const auto found = std::ranges::find(assumed, symbol, &Assumption::name);
    if (found == assumed.end()) continue;
    if (only != nullptr) return nullptr;
    only = &*found;
  }
  return only;
}

/// What the expression comes to where the symbol is so long and all others are as they are bound.
std::optional<std::int64_t> value_of(const std::string& expression, const std::string& symbol,
                                     std::int64_t extent, Symbols symbols) {
  symbols.bind(symbol, extent, "");
  return symbols.computed(expression);
}

/// Where an expression got an extent and one symbol of it none, that follows.
void solve_expressions(const Symbols& symbols, Assumptions& assumed) {
  for (const auto& [expression, bindings] : symbols.all()) {
    Assumption* const unknown = only_assumed(expression, assumed);
    if (bindings.size() != 1 || unknown == nullptr) continue;
    const auto at_zero = value_of(expression, unknown->name, 0, symbols);
    const auto at_one = value_of(expression, unknown->name, 1, symbols);
    if (!at_zero || !at_one || *at_one <= *at_zero) continue;
    const std::int64_t rest = bindings.front().extent - *at_zero;
    if (rest >= 0 && rest % (*at_one - *at_zero) == 0)
      unknown->extent = rest / (*at_one - *at_zero);
  }
}

}  // namespace

std::string name_of_unnamed(const std::string& input, int dimension) {
  return fmt::format("dimension {} of '{}'", dimension, input);
}

Assumptions assume_the_rest(const ModelInputs& inputs, const BoundInputs& bound) {
  const Batches batches(inputs);
  Assumptions assumed;
  const auto add = [&](const std::string& name, bool is_batch) {
    const bool is_known = std::ranges::find(assumed, name, &Assumption::name) != assumed.end();
    if (!is_known && bound.symbols.bindings_of(name).empty())
      assumed.push_back(assumption_of(name, is_batch));
  };
  for (const auto* input : inputs) {
    if (bound.shapes.contains(input->name())) continue;
    for (int d = 0; d < shape_of(*input).dim_size(); ++d) {
      const auto& dim = shape_of(*input).dim(d);
      if (is_fixed(dim) || bound.symbols.extent_of(dim.dim_param())) continue;
      for (const std::string& symbol : symbols_in(dim.dim_param()))
        add(symbol, batches.has(symbol));
      if (dim.dim_param().empty())
        assumed.push_back(assumption_of_unnamed(*input, d, batches.has_unnamed(*input, d)));
    }
  }
  solve_expressions(bound.symbols, assumed);
  return assumed;
}

}  // namespace autopar::graph
