#pragma once

#include <cstddef>
#include <string_view>

namespace autopar {

/// The least number of characters to insert, delete or replace (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace autopar
