#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "search/part_context.h"

namespace autopar::search {

/// The ways in which a model input or constant may lie.
struct StoredWays {
  SpecList specs;
  std::vector<std::int64_t> bytes;  ///< what the fullest rank needs, by spec
  /// For a constant: the bytes of all specs that it could have without pins or a plan to keep to.
  std::vector<std::int64_t> bytes_without_pins{};
};

/// Finds the ways in which tensors may lie, once for all tensors that are alike. Keeps a reference
/// to the profiles.
class StoredWaysTable {
 public:
  explicit StoredWaysTable(const std::deque<PartContext>& profiles) : profiles_(profiles) {}

  /// Returns the ways of one profile's input or constant; a constant lies the same way in all
  /// profiles. Throws Error if pins leave no way, and OutOfTime after the profile's time limit.
  std::shared_ptr<const StoredWays> of(std::size_t profile, graph::ValueId id);

 private:
  using Spec = std::optional<sharding::TensorShardSpec>;  ///< to keep to, if any
  using Key = std::tuple<sharding::Shape, graph::DataType, bool /* is constant */, Spec /* near */,
                         Spec /* form */>;

  const std::deque<PartContext>& profiles_;
  std::map<Key, std::shared_ptr<const StoredWays>> found_;
};

/// Returns the specs that the pins of one profile allow. Throws Error if they allow none.
SpecList stored_specs(const graph::Value& value, const PartContext& profile);

}  // namespace autopar::search
