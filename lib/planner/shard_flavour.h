#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/load_model.h"
#include "planner/planner.h"

namespace autopar::planner {

/// What `partition` writes of a plan: --shards. A flavour is a row of the table in
/// shard_flavour.cpp.
struct ShardFlavour {
  std::string_view name;
  std::string_view what;  ///< for --help
  /// Writes into BundleOptions::out and returns what `partition` tells of it.
  std::string (*write)(const Plan& plan, const BundleOptions& options);
  bool is_of_one_profile;  ///< and of models without a tail
};

/// Throws Error that lists the names where there is none of this one.
const ShardFlavour& shard_flavour(const std::string& name);

/// Throws Error where the flavour is not for so many profiles.
void check_profiles(const ShardFlavour& flavour, std::size_t profiles);
/// Throws Error where the flavour is not for the model.
void check_model(const ShardFlavour& flavour, const LoadedModel& model);

}  // namespace autopar::planner
