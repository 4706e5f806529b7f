#include "planner/shard_flavour.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/find_plan.h"
#include "planner/write_bundle.h"

namespace autopar::planner {
namespace {

constexpr std::array flavours{
    ShardFlavour{.name = "autopar",
                 .what = "a bundle that autopar runs",
                 .write = write_shards,
                 .is_of_one_profile = false},
};

}  // namespace

std::vector<std::string> shard_flavour_names() {
  std::vector<std::string> names;
  for (const ShardFlavour& flavour : flavours) names.emplace_back(flavour.name);
  return names;
}

std::string shard_flavours_text() {
  std::vector<std::string> texts;
  for (const ShardFlavour& flavour : flavours)
    texts.push_back(fmt::format("{}, {}", flavour.name, flavour.what));
  return fmt::format("{}", fmt::join(texts, "; "));
}

const ShardFlavour& shard_flavour(const std::string& name) {
  const auto found = std::ranges::find(flavours, name, &ShardFlavour::name);
  if (found == flavours.end())
    fail("--shards {}: give {}", name, fmt::join(shard_flavour_names(), " or "));
  return *found;
}

void check_profiles(const ShardFlavour& flavour, std::size_t profiles) {
  if (flavour.is_of_one_profile && profiles > 1)
    fail("--shards {}: it is one model, of one profile; give each --shape one value", flavour.name);
}

void check_model(const ShardFlavour& flavour, const LoadedModel& model) {
  check_profiles(flavour, model.profiles.size());
  const LoadedProfile& profile = model.profiles.front();
  if (flavour.is_of_one_profile && profile.tail)
    fail(
        "--shards {}: the model ends in shapes that only a run tells, from {} on, which have no "
        "plan; leave --shards out",
        flavour.name, profile.tail->summary.first_node);
}

std::string write_bundle(const Plan& plan, const BundleOptions& options) {
  return shard_flavour(plan.contents().shards).write(plan, options);
}

}  // namespace autopar::planner
