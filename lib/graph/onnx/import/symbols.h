#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::graph {

/// What an extent is a sum of, for an expression that Symbols::computed knows ("past + 2*new": past
/// and new); else the text itself. Nothing for an empty text.
std::vector<std::string> symbols_in(std::string_view text);

/// The extents that a model's symbolic dimensions have, by the inputs that say so.
class Symbols {
 public:
  /// An extent, and the first input that gave it; no input where the symbol itself got it.
  struct Binding {
    std::int64_t extent = 0;
    std::string input;
  };

  void bind(const std::string& symbol, std::int64_t extent, const std::string& input);
  /// Every extent that was given to the symbol, each once: several where inputs disagree.
  const std::vector<Binding>& bindings_of(const std::string& symbol) const;
  /// The one extent that was given to a symbol, else what it is computed as.
  std::optional<std::int64_t> extent_of(const std::string& symbol) const;
  /// What exporters write for an extent that follows from others: "past_sequence_length +
  /// sequence_length", "2*width + 1". nullopt where it is no such text, and where a part of it is
  /// unbound or has several extents.
  std::optional<std::int64_t> computed(std::string_view expression) const;

  const std::map<std::string, std::vector<Binding>>& all() const { return bindings_; }

 private:
  std::optional<std::int64_t> extent_of_factor(std::string_view factor) const;

  std::map<std::string, std::vector<Binding>> bindings_;
};

}  // namespace autopar::graph
