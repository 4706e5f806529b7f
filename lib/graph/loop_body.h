#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace autopar::graph {

/// What a Loop node that only the run can end computes in a round. The node reads its trip count
/// and its condition (no_value where it has none), the first value of each that is *carried* from
/// round to round, and what it *captures*: all that the body reads of the graph around it. It makes
/// the carried values of the last round and, behind them, what the rounds made, *collected* along a
/// new first dimension.
struct LoopBody {
  /// Inputs: the round, an int64 from 0, then what is carried and what is captured. Outputs:
  /// whether another round follows, then what is carried and what is collected. Constants of a KiB
  /// or more are captured, so that they are constants of the outermost graph.
  Graph graph;
  std::size_t carried = 0;

  std::size_t captured() const { return graph.inputs.size() - 1 - carried; }
  std::size_t collected() const { return graph.outputs.size() - 1 - carried; }
};

/// Places among a Loop node's inputs and its body's.
inline constexpr std::size_t loop_trip_count = 0;
inline constexpr std::size_t loop_condition = 1;
inline constexpr std::size_t loop_first_carried = 2;
inline constexpr std::size_t body_first_carried = 1;

/// The body as a runtime compiles it: what it captures of constants is constant, what else it
/// captures is an output too and so keeps its place, and what is carried is a State. `constants`
/// are those among the node's inputs, null for others.
Graph body_to_run(const Node& loop, std::span<const Tensor* const> constants);
/// The same for a node of `outer`.
Graph body_to_run(const Graph& outer, const Node& loop);

/// How many rounds a Loop node is taken to make.
struct ExpectedRounds {
  std::int64_t rounds = 0;
  bool is_known = false;  ///< as against assumed
};
ExpectedRounds expected_rounds(const Graph& outer, const Node& loop);

/// The number of rounds that is assumed where only the run tells it.
inline constexpr std::int64_t assumed_rounds = 16;

}  // namespace autopar::graph
