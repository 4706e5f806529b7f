#include "search/stored_ways.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "sharding/axis_uses.h"
#include "sharding/cross_mesh.h"

namespace autopar::search {

namespace {

using graph::Value;
using graph::ValueId;
using sharding::TensorShardSpec;

/// Smaller constants (and inputs) are not worth a choice: every rank has them whole.
constexpr std::int64_t smallest_split_bytes = 1024;

bool is_packed(const Value& value) { return bits_of(value.type) % 8 != 0; }

bool is_small(const Value& value) {
  return value.constant && whole_bytes(value) < smallest_split_bytes;
}

SpecList all_specs(const Value& value, const PartContext& profile) {
  return sharding::enumerate_tensor_shard_specs(value.shape, profile.cost.mesh(),
                                                profile.symmetry.relaxed());
}

/// The specs in which a tensor without a pin may lie.
SpecList possible_specs(const Value& value, const PartContext& profile) {
  if (is_packed(value) || is_small(value)) return {TensorShardSpec::replicated(value.shape.size())};
  return all_specs(value, profile);
}

/// The specs that the pins of all profiles allow for a constant. Throws Error if there are none.
SpecList specs_for_all(const Value& value, const std::deque<PartContext>& profiles) {
  SpecList specs = stored_specs(value, profiles.front());
  for (std::size_t p = 1; p < profiles.size(); ++p) {
    const SpecList allowed = stored_specs(value, profiles[p]);
    std::erase_if(specs, [&](const TensorShardSpec& spec) {
      return std::ranges::find(allowed, spec) == allowed.end();
    });
  }
  if (specs.empty())
    fail(
        "--strategy pins tensor '{}' otherwise in one profile than in another: a weight lies one "
        "way for all",
        value.name);
  return specs;
}

/// Keeps the specs near the plan's, if there is a plan and any spec is near.
void keep_near_plan(const std::optional<TensorShardSpec>& plan, const PartContext& profile,
                    SpecList& specs) {
  if (!plan) return;
  SpecList kept = specs;
  sharding::keep_near(kept, *plan, profile.cost.mesh().num_axes(), profile.near.free_axes);
  if (!kept.empty()) specs = std::move(kept);
}

/// Keeps the specs that the relaxation's form stands for, if there is one.
void keep_form(const std::optional<TensorShardSpec>& form, const PartContext& profile,
               SpecList& specs) {
  if (!form) return;
  std::erase_if(specs, [&](const TensorShardSpec& spec) {
    return canonical(spec, profile.symmetry.axes) != *form;
  });
}

/// What the rank that needs most of a constant needs, by spec.
std::vector<std::int64_t> constant_bytes(const Value& value, const SpecList& specs,
                                         const sharding::DeviceMesh& mesh) {
  std::vector<std::int64_t> bytes;
  for (const TensorShardSpec& spec : specs)
    bytes.push_back(
        bytes_of(value.type, graph::num_elements(largest_local_shape(spec, value.shape, mesh))));
  return bytes;
}

std::optional<TensorShardSpec> spec_in(const plan::Plan* plan, ValueId id) {
  return plan == nullptr ? std::nullopt : std::optional(plan->stored.at(id));
}

}  // namespace

SpecList stored_specs(const Value& value, const PartContext& profile) {
  if (is_packed(value)) return profile.pins.allowed(value.name, possible_specs(value, profile));
  if (profile.pins.pin_of_tensor(value.name) == nullptr) return possible_specs(value, profile);
  return profile.pins.allowed(value.name, all_specs(value, profile));
}

std::shared_ptr<const StoredWays> StoredWaysTable::of(std::size_t profile, ValueId id) {
  const PartContext& own = profiles_[profile];
  own.prices->check_limit();
  const Value& value = own.graph.value(id);
  const bool is_constant = value.constant.has_value();
  const std::optional<TensorShardSpec> near = spec_in(own.near.plan, id);
  const std::optional<TensorShardSpec> form = spec_in(own.symmetry.chosen, id);
  const bool is_received = own.received.contains(id);
  const bool is_pinned = std::ranges::any_of(profiles_, [&](const PartContext& each) {
    return each.pins.pin_of_tensor(value.name) != nullptr;
  });
  const Key key{value.shape, value.type, is_constant, near, form};
  const bool is_shared = !is_received && !is_pinned;
  if (const auto known = found_.find(key); is_shared && known != found_.end()) return known->second;

  StoredWays ways;
  if (is_received)
    ways.specs = sharding::receive_specs(value.shape, own.cost.mesh());
  else
    ways.specs = is_constant ? specs_for_all(value, profiles_) : stored_specs(value, own);
  keep_near_plan(near, own, ways.specs);
  keep_form(form, own, ways.specs);
  if (is_constant) {
    ways.bytes = constant_bytes(value, ways.specs, own.cost.mesh());
    ways.bytes_without_pins = constant_bytes(value, possible_specs(value, own), own.cost.mesh());
  } else {
    for (const TensorShardSpec& spec : ways.specs)
      ways.bytes.push_back(arena_bytes(value, spec, own.cost));
  }
  auto found = std::make_shared<const StoredWays>(std::move(ways));
  if (is_shared) found_.emplace(key, found);
  return found;
}

}  // namespace autopar::search
