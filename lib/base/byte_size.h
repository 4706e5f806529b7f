#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace autopar {

/// The bytes that "80GiB", "500MB" or "1048576" says; nullopt for what says no size above 0.
inline std::optional<std::int64_t> parse_byte_size(std::string_view text) {
  constexpr std::pair<std::string_view, double> units[] = {
      {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
      {"B", 1.0},      {"", 1.0}};
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [unit, bytes] : units)
    if (error == std::errc() && suffix == unit && amount > 0 && amount * bytes < 9e18)
      return static_cast<std::int64_t>(amount * bytes);
  return std::nullopt;
}

}  // namespace autopar
