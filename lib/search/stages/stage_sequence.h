#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "plan/plan.h"

namespace autopar::search {

/// Layers [begin, end) on the devices from `first_rank` on.
struct StageChoice {
  int begin = 0;
  int end = 0;
  int size = 0;  ///< which of SequenceProblem::sizes
  int first_rank = 0;
  friend bool operator==(const StageChoice&, const StageChoice&) = default;
};

/// Cut a chain of layers into stages and give each the next devices, so that all devices are used.
/// Costs are picoseconds of one microbatch, `impossible` where a stage cannot be had.
struct SequenceProblem {
  int layers = 0;
  int devices = 0;
  int devices_per_node = 0;              ///< where there are no nodes, `devices`
  std::vector<int> sizes;                ///< devices that a stage may have, ascending
  std::vector<assignment::Cost> stages;  ///< by size, begin and end: stage()
  /// By whether a node begins behind the cut, cut, and the size of the smaller of both stages:
  /// transfer().
  std::vector<assignment::Cost> transfers;
  int microbatches = 1;
  plan::Objective objective = plan::Objective::latency;
  int stage_count = 0;  ///< 0: whatever is best
  /// Sequences that are better than the answer by no more than this part of its cost may be missed.
  double epsilon = 0;

  std::size_t stage_place(int size, int begin, int end) const {
    return (static_cast<std::size_t>(size) * (layers + 1) + begin) * (layers + 1) + end;
  }
  std::size_t transfer_place(bool node_begins, int cut, int smaller_size) const {
    return ((node_begins ? layers + 1 : 0) + cut) * sizes.size() + smaller_size;
  }
  assignment::Cost& stage(int size, int begin, int end) {
    return stages[stage_place(size, begin, end)];
  }
  assignment::Cost stage(int size, int begin, int end) const {
    return stages[stage_place(size, begin, end)];
  }
  assignment::Cost& transfer(bool node_begins, int cut, int smaller_size) {
    return transfers[transfer_place(node_begins, cut, smaller_size)];
  }
  assignment::Cost transfer(bool node_begins, int cut, int smaller_size) const {
    return transfers[transfer_place(node_begins, cut, smaller_size)];
  }
  /// Makes room for all stages, impossible, and all transfers, free.
  void allocate();
  /// Whether a stage may begin there: within one node, or in whole nodes from a node's first device
  /// on.
  bool has_place(int size, int first_rank) const;
};

struct StageSequence {
  std::vector<StageChoice> stages;
  assignment::Cost sum = 0;          ///< of all stages and transfers
  assignment::Cost slowest = 0;      ///< of all stages and transfers
  assignment::Cost cost = 0;         ///< as pipeline_seconds
  assignment::Cost lower_bound = 0;  ///< no sequence costs less; at least cost / (1 + epsilon)
};

/// The cheapest sequence, of those that are as cheap under throughput the one of the least sum.
/// Nothing where every sequence holds an impossible stage.
std::optional<StageSequence> best_sequence(const SequenceProblem& problem);

/// The numbers of stages into which the devices can be cut at all, ascending, up to `layers`.
std::vector<int> possible_stage_counts(const SequenceProblem& problem);

}  // namespace autopar::search
