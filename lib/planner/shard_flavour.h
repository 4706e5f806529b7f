#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/collective_set.h"
#include "planner/load_model.h"
#include "planner/planner.h"

namespace autopar::planner {

/// Another runtime that shards are for.
struct OtherRuntime {
  std::shared_ptr<const cost::CollectiveSet> (*collectives)();  ///< that plans may take
  /// Puts them in place of autopar's in a rank's graph, of a world of so many ranks.
  void (*use_collectives)(graph::Graph& shard, int ranks);
};

/// What `partition` writes of a plan: --shards. A flavour is a row of the table in
/// shard_flavour.cpp.
struct ShardFlavour {
  std::string_view name;
  std::string_view what;  ///< for --help
  /// Writes into BundleOptions::out and returns what `partition` tells of it.
  std::string (*write)(const Plan& plan, const BundleOptions& options);
  bool is_of_one_profile;                              ///< and of models without a tail
  std::optional<OtherRuntime> runtime = std::nullopt;  ///< none: autopar's own, or no shards
};

/// Throws Error that lists the names where there is none of this one.
const ShardFlavour& shard_flavour(const std::string& name);

/// Throws Error where the flavour is for another runtime, which has no pipelines.
void check_stages(const ShardFlavour& flavour, const PlanOptions& options);
/// Throws Error where the flavour is not for so many profiles.
void check_profiles(const ShardFlavour& flavour, std::size_t profiles);
/// Throws Error where the flavour is not for the model.
void check_model(const ShardFlavour& flavour, const LoadedModel& model);

}  // namespace autopar::planner
