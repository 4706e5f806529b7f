#include "graph/onnx/import/symbols.h"

#include <algorithm>
#include <charconv>

namespace autopar::graph {
namespace {

std::string_view without_spaces_around(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Puts the values of what stands between separators together; nullopt where one has none.
template <typename ValueOf, typename Combine>
std::optional<std::int64_t> combine_parts(std::string_view text, char separator,
                                          std::int64_t neutral, const ValueOf& value_of,
                                          const Combine& combine) {
  std::int64_t result = neutral;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    const std::optional<std::int64_t> part = value_of(text.substr(at, end - at));
    if (!part || combine(result, *part, &result)) return std::nullopt;
    at = end + 1;
  }
  return result;
}

/// Both tell whether there was an overflow.
bool add(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  return __builtin_add_overflow(a, b, sum);
}
bool multiply(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return __builtin_mul_overflow(a, b, product);
}

}  // namespace

void Symbols::bind(const std::string& symbol, std::int64_t extent, const std::string& input) {
  std::vector<Binding>& known = bindings_[symbol];
  if (std::ranges::find(known, extent, &Binding::extent) == known.end())
    known.push_back({extent, input});
}

const std::vector<Symbols::Binding>& Symbols::bindings_of(const std::string& symbol) const {
  static const std::vector<Binding> none;
  const auto found = bindings_.find(symbol);
  return found == bindings_.end() ? none : found->second;
}

std::optional<std::int64_t> Symbols::extent_of_factor(std::string_view factor) const {
  const std::string_view text = without_spaces_around(factor);
  const auto& bindings = bindings_of(std::string(text));
  if (bindings.size() == 1) return bindings.front().extent;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> Symbols::extent_of(const std::string& symbol) const {
  const auto& bindings = bindings_of(symbol);
  return bindings.size() == 1 ? bindings.front().extent : computed(symbol);
}

std::optional<std::int64_t> Symbols::computed(std::string_view expression) const {
  if (expression.find_first_of("+*") == std::string_view::npos) return std::nullopt;
  const auto of_product = [&](std::string_view product) {
    const auto of_factor = [&](std::string_view factor) { return extent_of_factor(factor); };
    return combine_parts(product, '*', 1, of_factor, multiply);
  };
  return combine_parts(expression, '+', 0, of_product, add);
}

}  // namespace autopar::graph
