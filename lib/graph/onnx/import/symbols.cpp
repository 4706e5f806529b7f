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

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_of(" -/()%,") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> symbols_in(std::string_view text) {
  if (text.empty()) return {};
  if (is_number(text)) return {std::string(text)};
  std::vector<std::string> symbols;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("+*", at), text.size());
    const std::string_view factor = without_spaces_around(text.substr(at, end - at));
    if (!is_number(factor) && !is_name(factor)) return {std::string(text)};
    if (!is_number(factor)) symbols.emplace_back(factor);
    at = end + 1;
  }
  return symbols;
}

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
  std::int64_t sum = 0;
  std::int64_t product = 1;
  for (std::size_t at = 0; at <= expression.size();) {
    const std::size_t end = std::min(expression.find_first_of("+*", at), expression.size());
    const auto factor = extent_of_factor(expression.substr(at, end - at));
    if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
    if (end == expression.size() || expression[end] == '+') {
      if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
      product = 1;
    }
    at = end + 1;
  }
  return sum;
}

}  // namespace autopar::graph
