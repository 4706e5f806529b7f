#include "sharding/axis_uses.h"

#include <cstddef>
#include <string>

namespace autopar::sharding {

namespace {

/// By mesh axis, all places where it stands, as text.
using AxisUses = std::vector<std::string>;

constexpr char end_of_part = 0;
constexpr char partial_place = 1;
constexpr char first_place = 2;

void add_places(const std::vector<std::vector<int>>& axes_by_place, AxisUses& uses) {
  for (std::size_t place = 0; place < axes_by_place.size(); ++place)
    for (const int axis : axes_by_place[place])
      uses[axis] += static_cast<char>(first_place + place);
}

void add_places(const TensorShardSpec& spec, AxisUses& uses) {
  add_places(spec.dims, uses);
  for (const int axis : spec.partial) uses[axis] += partial_place;
  for (std::string& use : uses) use += end_of_part;
}

AxisUses uses_of(const TensorShardSpec& spec, int num_axes) {
  AxisUses uses(num_axes);
  add_places(spec, uses);
  return uses;
}

AxisUses uses_of(const OpShardSpec& spec, int num_axes) {
  AxisUses uses(num_axes);
  add_places(spec.factor_axes, uses);
  for (const auto* tensors : {&spec.inputs, &spec.computed, &spec.outputs})
    for (const TensorShardSpec& tensor : *tensors) add_places(tensor, uses);
  return uses;
}

template <typename Spec>
void keep_near_plan(std::vector<Spec>& choices, const Spec& plan, int num_axes,
                    std::span<const int> free) {
  const auto uses_of_others = [&](const Spec& spec) {
    AxisUses uses = uses_of(spec, num_axes);
    for (const int axis : free) uses[axis].clear();
    return uses;
  };
  const AxisUses planned = uses_of_others(plan);
  std::erase_if(choices, [&](const Spec& choice) { return uses_of_others(choice) != planned; });
}

}  // namespace

void keep_near(std::vector<OpShardSpec>& choices, const OpShardSpec& plan, int num_axes,
               std::span<const int> free) {
  keep_near_plan(choices, plan, num_axes, free);
}

void keep_near(std::vector<TensorShardSpec>& choices, const TensorShardSpec& plan, int num_axes,
               std::span<const int> free) {
  keep_near_plan(choices, plan, num_axes, free);
}

}  // namespace autopar::sharding
