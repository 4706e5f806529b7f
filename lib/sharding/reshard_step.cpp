#include "sharding/reshard_step.h"

#include <algorithm>

namespace autopar::sharding {

namespace {

/// Calls `visit` with each sequence of one or more of the axes, in any order or in ascending order
/// alone. `taken`, at first empty, holds the sequence.
template <typename Visit>
void for_each_sequence(std::vector<int>& taken, const std::vector<int>& axes, bool in_any_order,
                       Visit visit) {
  for (const int axis : axes) {
    if (std::ranges::find(taken, axis) != taken.end()) continue;
    if (!in_any_order && !taken.empty() && axis < taken.back()) continue;
    taken.push_back(axis);
    visit(taken);
    for_each_sequence(taken, axes, in_any_order, visit);
    taken.pop_back();
  }
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::array<std::string_view, 5> names{"slice", "all-reduce", "all-gather",
                                                  "reduce-scatter", "all-to-all"};
  return names.at(static_cast<std::size_t>(kind));
}

std::int64_t payload_bytes(const ReshardStep& step, const Shape& shape, graph::DataType type,
                           const DeviceMesh& mesh, int rank) {
  if (step.kind == StepKind::slice) return 0;
  const TensorShardSpec& whole = step.kind == StepKind::all_gather ? step.after : step.before;
  return graph::bytes_of(type, graph::num_elements(local_shape(whole, shape, mesh, rank)));
}

void for_each_step_from(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                        const std::function<void(const ReshardStep&)>& visit) {
  ReshardStep step{.mesh_axes = {}, .reduce = spec.reduce, .before = spec, .after = spec};
  const auto num_dims = static_cast<int>(spec.dims.size());
  // Begins a step from the spec `after`, which is returned, to be changed.
  const auto begin = [&](StepKind kind, const std::vector<int>& axes, int dim, int split_dim,
                         const TensorShardSpec& after) -> TensorShardSpec& {
    step.kind = kind;
    step.mesh_axes = axes;
    step.dim = dim;
    step.split_dim = split_dim;
    return step.after = after;
  };
  const auto split = [](TensorShardSpec& after, int dim, const std::vector<int>& axes) {
    after.dims[dim].insert(after.dims[dim].end(), axes.begin(), axes.end());
  };
  const bool in_any_order = mesh.num_axes() <= most_axes_stepped_in_any_order;
  std::vector<int> sequence;
  for_each_sequence(sequence, spec.partial, in_any_order, [&](const std::vector<int>& axes) {
    TensorShardSpec reduced = spec;
    std::erase_if(reduced.partial,
                  [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); });
    if (!reduced.is_partial()) reduced.reduce = Reduce::sum;
    if (std::ranges::is_sorted(axes)) {
      begin(StepKind::all_reduce, axes, -1, -1, reduced);
      visit(step);
    }
    for (int d = 0; d < num_dims; ++d) {
      if (shape[d] < 2) continue;
      split(begin(StepKind::reduce_scatter, axes, d, -1, reduced), d, axes);
      visit(step);
    }
  });
  std::vector<int> unused;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (!spec.uses(axis)) unused.push_back(axis);
  for (int d = 0; d < num_dims; ++d) {
    const std::vector<int>& axes = spec.dims[d];
    for (std::size_t kept = 0; kept < axes.size(); ++kept) {
      const std::vector<int> moved(axes.begin() + static_cast<std::ptrdiff_t>(kept), axes.end());
      begin(StepKind::all_gather, moved, d, -1, spec).dims[d].resize(kept);
      visit(step);
      for (int to = 0; to < num_dims; ++to) {
        if (to == d || shape[to] < 2) continue;
        TensorShardSpec& exchanged = begin(StepKind::all_to_all, moved, d, to, spec);
        exchanged.dims[d].resize(kept);
        split(exchanged, to, moved);
        visit(step);
      }
    }
    if (shape[d] < 2) continue;
    for_each_sequence(sequence, unused, in_any_order, [&](const std::vector<int>& added) {
      split(begin(StepKind::slice, added, d, -1, spec), d, added);
      visit(step);
    });
  }
}

}  // namespace autopar::sharding
