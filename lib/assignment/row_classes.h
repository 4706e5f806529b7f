#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace autopar::assignment {

/// The rows of a matrix, equal ones in one class. Classes are numbered by their first rows.
struct RowClasses {
  std::vector<int> of;                       ///< by row
  std::vector<std::size_t> representatives;  ///< by class, its first row
};

template <typename Number>
RowClasses row_classes(std::span<const Number> matrix, std::size_t columns) {
  const auto is_less = [](auto a, auto b) { return std::ranges::lexicographical_compare(a, b); };
  std::map<std::span<const Number>, int, decltype(is_less)> known(is_less);
  RowClasses classes;
  for (std::size_t row = 0; row * columns < matrix.size(); ++row) {
    const auto [entry, is_new] =
        known.try_emplace(matrix.subspan(row * columns, columns), static_cast<int>(known.size()));
    classes.of.push_back(entry->second);
    if (is_new) classes.representatives.push_back(row);
  }
  return classes;
}

}  // namespace autopar::assignment
