#pragma once

#include <functional>
#include <set>

#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// What became of the model's nodes where inputs have certain extents.
struct Attempt {
  /// An output that is declared with one extent and has another.
  struct Contradiction {
    std::string symbol;  ///< as which it is declared
    std::int64_t declared = 0;
    std::int64_t extent = 0;
  };
  bool is_whole = false;       ///< no node was refused
  std::size_t nodes_read = 0;  ///< before the first that was refused
  /// Shapes that the refused node was given, short lists of integers among them; none where it was
  /// refused for another reason.
  std::vector<Shape> refused{};
  std::vector<Contradiction> contradictions{};  ///< of a whole one
};

using TryExtents = std::function<Attempt(const Assumptions&)>;

struct TieOptions {
  std::int64_t extent = 128;  ///< what is assumed, except of batches
  /// Whether symbols may be 0 or 1: what is 1 is broadcast, and what is 0 is not there, so that
  /// hardly anything refuses them.
  bool may_be_least = false;
  std::set<std::int64_t> known{};  ///< extents that inputs were given
};

struct Ties {
  Assumptions assumed;
  bool may_be_to_blame = false;  ///< the first refused node was given extents that are assumed
};

/// Finds how a model ties what is assumed together, where it refuses the extents that are assumed
/// for each by itself.
///
/// Assumed symbols get *probes*, primes whose sums tell them apart, smaller than what is assumed,
/// so that they meet no limit that it would not meet. The nodes are read with them. Where one is
/// refused, its inputs' extents disagree: an extent that is a probe, or a sum of probes, should be
/// another. That equation, solved for one symbol, is a *tie*: "total = past + new", "width = 16".
/// A tie is accepted if more nodes are read with it than before; then the next refused node is
/// looked at. Outputs that have other extents than their symbols tell ties likewise. At the end
/// the same is done with the extents that are assumed in the place of probes, for limits that these
/// meet. What is tied depends on nothing but the model and its inputs' given extents.
Ties tie_extents(Assumptions assumed, TieOptions options, const TryExtents& try_extents);

}  // namespace autopar::graph
