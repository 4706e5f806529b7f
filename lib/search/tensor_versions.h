#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::search {

using SpecList = std::vector<sharding::TensorShardSpec>;

/// A matrix has 11 specs on two mesh axes, and many readers 2,047 sets of them. A node for each
/// version instead leaves relaxations up to 5 % lower, and layers no chain that elimination solves.
inline constexpr std::size_t most_sets_of_versions = 4096;

/// The specs in which a tensor with several readers may be needed, and the sets of these that are
/// worth having: each has a spec for every reader, and no more specs than there are readers.
/// One choice among sets, where a choice for each version by itself says the same, leaves the
/// problem almost a tree: its relaxations are tight and its tables small.
struct TensorVersions {
  /// Some specs, and of which kind the one is that the tensor was made in, which needs no copy.
  struct Set {
    std::uint64_t specs = 0;  ///< a bit each
    int made = no_kind;       ///< where none of them is, or kinds do not matter
  };
  static constexpr int no_kind = -1;

  SpecList specs;          ///< ascending
  std::vector<int> kinds;  ///< by spec: those whose copies take the same; empty: of no matter
  std::vector<Set> sets;   ///< empty where there would be too many

  bool is_in(std::size_t spec, std::size_t set) const {
    return (sets[set].specs >> spec & 1U) != 0;
  }
  /// True where the tensor, when it was made in such a spec, may be had in the set's.
  bool can_make(const sharding::TensorShardSpec& from, std::size_t set) const;
  /// The index of the spec in `specs`, which has it.
  std::size_t index_of(const sharding::TensorShardSpec& spec) const;
  bool has(const sharding::TensorShardSpec& spec) const;
};

/// All that some reader may read, ascending. `readers`: for each the specs of its strategies, equal
/// ones as often as they come.
SpecList specs_read(std::span<const SpecList* const> readers);
/// `kinds`: by spec of specs_read, of copies; none where memory is of no matter. With kinds, half
/// as many sets are too many.
TensorVersions tensor_versions(std::span<const SpecList* const> readers, std::vector<int> kinds,
                               std::size_t most_sets = most_sets_of_versions);
/// The same, without kinds, of those specs alone that several readers may read. What one reader
/// alone may read is not in `specs`: it has its copy, if any, for itself.
TensorVersions shared_versions(std::span<const SpecList* const> readers,
                               std::size_t most_sets = most_sets_of_versions);

}  // namespace autopar::search
