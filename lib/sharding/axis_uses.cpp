#include "sharding/axis_uses.h"

#include <algorithm>
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

int axes_used_otherwise(const AxisUses& a, const AxisUses& b) {
  int count = 0;
  for (std::size_t axis = 0; axis < a.size(); ++axis) count += a[axis] != b[axis];
  return count;
}

template <typename Spec>
void keep_near_plans(std::vector<Spec>& choices, std::span<const Spec* const> plans, int num_axes,
                     int most) {
  std::vector<AxisUses> planned;
  for (const Spec* plan : plans) planned.push_back(uses_of(*plan, num_axes));
  std::erase_if(choices, [&](const Spec& choice) {
    const AxisUses uses = uses_of(choice, num_axes);
    return std::ranges::none_of(
        planned, [&](const AxisUses& plan) { return axes_used_otherwise(uses, plan) <= most; });
  });
}

}  // namespace

void keep_near(std::vector<OpShardSpec>& choices, std::span<const OpShardSpec* const> plans,
               int num_axes, int most) {
  keep_near_plans(choices, plans, num_axes, most);
}

void keep_near(std::vector<TensorShardSpec>& choices, std::span<const TensorShardSpec* const> plans,
               int num_axes, int most) {
  keep_near_plans(choices, plans, num_axes, most);
}

}  // namespace autopar::sharding
