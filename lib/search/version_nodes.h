#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "search/cost_tables.h"
#include "search/problem_parts.h"

namespace autopar::search {

/// A tensor that may be had in several versions, one for each spec in which it is read.
struct VersionedTensor {
  /// The memory of a version that is not as the tensor was made: bytes at times [first, end).
  struct Copy {
    int first;
    int end;
    std::int64_t bytes;
    auto operator<=>(const Copy&) const = default;
  };
  graph::ValueId value;
  int producer;                       ///< the problem's node
  const SpecList* made;               ///< by the producer's strategy
  std::vector<const SpecList*> read;  ///< by reader and its strategy
  SpecList specs;
  std::vector<Copy> copies;  ///< by spec
};

/// `read`: by reader, which are those of `uses`.
VersionedTensor versioned_tensor(const graph::Graph& graph, const cost::CostModel& cost,
                                 const GraphUses& uses, graph::ValueId value, int producer,
                                 const SpecList* made, std::vector<const SpecList*> read);

/// Adds the nodes and edges that choose each tensor's versions. Copies are counted where the most
/// that may be alive at some time exceeds the limits, which must be set.
void add_versions(const graph::Graph& graph, const GraphUses& uses,
                  const std::vector<VersionedTensor>& tensors, CostTables& tables,
                  assignment::AssignmentProblem& problem);

}  // namespace autopar::search
