#pragma once

#include "graph/onnx/control_flow/control_flow.h"

namespace autopar::graph {

/// A Loop that stays one node, its graph read as a graph of its own.
struct NativeLoop {
  ValueId trip_count = no_value;
  ValueId condition = no_value;
  Values carried;  ///< their values before the first round
  /// Whether the node has each of the collected outputs.
  std::vector<bool> is_collected;
  /// Reads the graph of a round: its outputs for this round's number, an int64, and what is
  /// carried. Whether another round follows, then what is carried and collected.
  std::function<Values(ValueId round, const Values& carried)> read;
};

/// Its trip count where that is known.
std::optional<std::int64_t> known_trips(const NativeLoop& loop, NodeReader& reader);

/// Whether the node has each of its outputs from the first to the last.
std::vector<bool> has_outputs(const onnx::NodeProto& node, std::size_t first, std::size_t last);

/// Adds the node. What every round leaves as it was is captured, not carried, so that shapes may
/// depend on it where it is constant; the rest has one type and shape in all rounds. Returns what
/// is carried behind the last round, and what is collected (no_value for what is not). Throws
/// UnknownShape where the run decides how much is collected, Error where a carried value does not
/// keep its type and shape.
Values add_native_loop(const NativeLoop& loop, NodeReader& reader);

}  // namespace autopar::graph
