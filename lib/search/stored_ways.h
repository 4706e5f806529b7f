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
  std::vector<std::int64_t> bytes;  ///< by spec, of the rank that needs most
  /// The same of a constant's specs that there are without pins and without plans to keep to.
  std::vector<std::int64_t> bytes_without_pins{};
};

/// Finds them, once for all tensors that are alike. Keeps a reference to the profiles.
class StoredWaysTable {
 public:
  explicit StoredWaysTable(const std::deque<PartContext>& profiles) : profiles_(profiles) {}

  /// Of a value of this profile; a constant lies one way in all. Throws Error where pins leave
  /// none, OutOfTime after the limit of the profile's prices.
  std::shared_ptr<const StoredWays> of(std::size_t profile, graph::ValueId id);

 private:
  using Spec = std::optional<sharding::TensorShardSpec>;  ///< to keep to, if any
  using Key = std::tuple<sharding::Shape, graph::DataType, bool /* is constant */, Spec /* near */,
                         Spec /* form */>;

  const std::deque<PartContext>& profiles_;
  std::map<Key, std::shared_ptr<const StoredWays>> found_;
};

/// Those that the pins of one profile leave. Throws Error where that is none.
SpecList stored_specs(const graph::Value& value, const PartContext& profile);

}  // namespace autopar::search
