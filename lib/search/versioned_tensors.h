#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "search/part_context.h"

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
  const graph::Value& value;
  int producer;                         ///< the problem's node
  const SpecList* made;                 ///< by the producer's strategy
  std::vector<int> readers{};           ///< the problem's nodes, ascending; node i runs at time i+1
  std::vector<const SpecList*> read{};  ///< by reader and its strategy
  SpecList specs{};
  std::vector<Copy> copies{};  ///< by spec
};

/// Adds an edge for each value of one reader in the part, and returns those of several. A large
/// weight that is stored in pieces and gathered for its only reader is among these: its copy
/// counts.
std::vector<VersionedTensor> connect_readers(PartContext& context, std::int64_t limit,
                                             std::size_t part, PlanProblem& built);

/// Adds the nodes and edges that choose each tensor's versions. Copies are counted where the most
/// that may be alive at some time exceeds the limits, which must be set. `tensors` are one part's,
/// with its tables.
void add_versions(const std::vector<VersionedTensor>& tensors, Copies copies, CostTables& tables,
                  assignment::AssignmentProblem& problem);

}  // namespace autopar::search
