#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::search {

using SpecList = std::vector<sharding::TensorShardSpec>;

/// In which specs a tensor with several readers may have to lie, and which of these sets of specs
/// are worth having: each has a spec for every reader, and no more specs than there are readers.
/// One choice among sets, where a choice for each version by itself says the same, leaves the
/// problem almost a tree: its relaxations are tight and its tables small.
struct TensorVersions {
  SpecList specs;                   ///< ascending
  std::vector<std::uint64_t> sets;  ///< a bit a spec; empty where there would be too many sets

  bool is_in(std::size_t spec, std::size_t set) const { return (sets[set] >> spec & 1U) != 0; }
  /// Of the spec among `specs`, which has it.
  std::size_t index_of(const sharding::TensorShardSpec& spec) const;
};

/// `readers`: for each reader the specs of its strategies, equal ones as often as they come.
TensorVersions tensor_versions(std::span<const SpecList* const> readers);

}  // namespace autopar::search
