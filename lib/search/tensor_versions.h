#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::search {

using SpecList = std::vector<sharding::TensorShardSpec>;

/// Beyond, a node for each version leaves relaxations up to 5 % lower, and layers no chain that
/// elimination solves.
inline constexpr std::size_t most_sets_of_versions = 4096;

/// The ways in which a tensor with several readers may be had: in a set of the specs in which it is
/// read, which has one for every reader; or, where copies' memory does not matter, with a copy for
/// each reader alone. Then no set needs as many specs as there are readers: of a matrix on three
/// mesh axes, which has 49 specs, two readers leave 49 sets, not 1,225, and 49 specs to copy from.
///
/// One choice among these ways, where a choice for each version by itself says the same, leaves the
/// problem almost a tree: its relaxations are tight and its tables small.
struct TensorVersions {
  /// Some specs, and of which kind the one is that the tensor was made in, which needs no copy.
  struct Set {
    std::vector<std::size_t> specs{};  ///< indices, ascending
    int made = no_kind;                ///< where none of them is, or kinds do not matter
  };
  static constexpr int no_kind = -1;

  SpecList specs{};          ///< ascending
  std::vector<int> kinds{};  ///< by spec: those whose copies take the same; empty: of no matter
  std::vector<Set> sets{};   ///< the first ways
  /// The others: the tensor was made in one of these, and each reader has a copy of its own.
  SpecList alone{};
  /// Such a copy counts for one part in so many, since several readers may share it: above 1 in
  /// relaxed versions only.
  int readers_of_copy = 1;

  std::size_t num_ways() const { return sets.size() + alone.size(); }
  bool is_empty() const { return num_ways() == 0; }  ///< where there would be too many
  bool is_in(std::size_t spec, std::size_t set) const;
  /// True where the tensor, when it was made in such a spec, may be had in the set's.
  bool can_make(const sharding::TensorShardSpec& from, std::size_t set) const;
  /// The index of the spec in `specs`, which has it.
  std::size_t index_of(const sharding::TensorShardSpec& spec) const;
  bool has(const sharding::TensorShardSpec& spec) const;
};

/// All that some reader may read, ascending. `readers`: for each the specs of its strategies, equal
/// ones as often as they come.
SpecList specs_read(std::span<const SpecList* const> readers);
/// The ways to have a tensor whose copies' memory matters: sets only. `kinds`: the kind of each
/// copy, by spec of specs_read, or none; with kinds, half as many sets are too many.
TensorVersions counted_versions(std::span<const SpecList* const> readers, std::vector<int> kinds,
                                std::size_t most_sets = most_sets_of_versions);
/// The ways to have a tensor whose copies' memory does not matter: sets, or a copy for each reader.
/// `made`: the specs in which the tensor may be made, equal ones as often as they come.
TensorVersions tensor_versions(std::span<const SpecList* const> readers, const SpecList& made,
                               std::size_t most_sets = most_sets_of_versions);
/// As tensor_versions, with the specs alone that several readers may read. What one reader alone
/// may read is not in `specs`: it has its copy, if any, for itself.
TensorVersions shared_versions(std::span<const SpecList* const> readers, const SpecList& made,
                               std::size_t most_sets = most_sets_of_versions);
/// As shared_versions, with sets of as many specs as are not too many: copies that several readers
/// may share then count for one of them alone. No choice of the readers costs more than it does.
TensorVersions relaxed_versions(std::span<const SpecList* const> readers, const SpecList& made,
                                std::size_t most_sets = most_sets_of_versions);

}  // namespace autopar::search
