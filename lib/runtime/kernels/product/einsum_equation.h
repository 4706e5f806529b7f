#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace autopar::runtime {

/// A dimension of an Einsum: a letter of its equation, or one that an ellipsis stands for.
using EinsumLabel = int;

/// An Einsum's equation with the shapes of its operands.
struct EinsumEquation {
  std::vector<std::vector<EinsumLabel>> operands;  ///< a label for each dimension
  std::vector<EinsumLabel> output;
  std::map<EinsumLabel, std::int64_t> extents;

  /// Throws Error for what is no equation on such operands. Spaces mean nothing; without "->" the
  /// result has the ellipsis first and then, in alphabetical order, the letters that appear once.
  /// Dimensions of extent 1 broadcast, as NumPy lets them.
  EinsumEquation(std::string_view equation, const std::vector<graph::Shape>& shapes);
};

}  // namespace autopar::runtime
