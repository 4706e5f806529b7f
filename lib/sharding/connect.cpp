// Dijkstra's algorithm over specs. A step removes part of what separates source from destination or
// moves it elsewhere; every step keeps a spec that local_ranges understands: axes leave a dimension
// from its minor end and enter it there.

#include "sharding/connect.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace autopar::sharding {
namespace {

/// Every non-empty subset of the axes, in their order.
std::vector<std::vector<int>> subsets(const std::vector<int>& axes) {
  std::vector<std::vector<int>> result;
  for (unsigned mask = 1; mask < 1U << axes.size(); ++mask) {
    std::vector<int>& subset = result.emplace_back();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if ((mask >> i & 1U) != 0) subset.push_back(axes[i]);
    }
  }
  return result;
}

/// The steps that lead away from one spec of a tensor.
std::vector<ReshardStep> steps_from(const TensorShardSpec& spec, const Shape& shape,
                                    const DeviceMesh& mesh) {
  std::vector<ReshardStep> steps;
  const auto num_dims = static_cast<int>(spec.dims.size());
  // Adds a step to the spec that is returned, which is `spec` so far.
  const auto add = [&](StepKind kind, std::vector<int> axes, int dim,
                       int split_dim = -1) -> TensorShardSpec& {
    return steps
        .emplace_back(ReshardStep{kind, std::move(axes), dim, split_dim, spec.reduce, spec, spec})
        .after;
  };
  for (const std::vector<int>& axes : subsets(spec.partial)) {
    TensorShardSpec reduced = spec;
    std::erase_if(reduced.partial,
                  [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); });
    if (!reduced.is_partial()) reduced.reduce = Reduce::sum;
    add(StepKind::all_reduce, axes, -1) = reduced;
    for (int d = 0; d < num_dims; ++d) {
      if (shape[d] < 2) continue;
      TensorShardSpec& scattered = add(StepKind::reduce_scatter, axes, d) = reduced;
      scattered.dims[d].insert(scattered.dims[d].end(), axes.begin(), axes.end());
    }
  }
  for (int d = 0; d < num_dims; ++d) {
    const std::vector<int>& axes = spec.dims[d];
    for (std::size_t kept = 0; kept < axes.size(); ++kept)
      add(StepKind::all_gather, {axes.begin() + kept, axes.end()}, d).dims[d].resize(kept);
    for (int to = 0; !axes.empty() && to < num_dims; ++to) {
      if (to == d || shape[to] < 2) continue;
      TensorShardSpec& exchanged = add(StepKind::all_to_all, {axes.back()}, d, to);
      exchanged.dims[d].pop_back();
      exchanged.dims[to].push_back(axes.back());
    }
    for (int axis = 0; shape[d] > 1 && axis < mesh.num_axes(); ++axis) {
      if (!spec.uses(axis)) add(StepKind::slice, {axis}, d).dims[d].push_back(axis);
    }
  }
  return steps;
}

/// Seconds, and the number of steps, which tells equal seconds apart.
using Cost = std::pair<double, int>;

/// Of equal costs the spec that splits outer dimensions goes on first: what is gathered along them
/// need not be packed. The answer is the same on every machine.
struct CheapestFirst {
  using Way = std::pair<Cost, TensorShardSpec>;
  bool operator()(const Way& a, const Way& b) const {
    return a.first != b.first ? a.first < b.first : b.second < a.second;
  }
};

/// One way to a spec is better than another where it is so by more than rounding, so that of equal
/// ones, such as an all-reduce and the two collectives that it is made of, the shorter stays, which
/// is found first: its last step is longer, and so begins from a cheaper spec.
bool is_better(const Cost& cost, const Cost& known) {
  constexpr double rounding = 1e-12;
  return cost.first < known.first * (1 - rounding) ||
         (cost.first <= known.first && cost.second < known.second);
}

/// How a spec was reached.
struct Reached {
  Cost cost;
  std::optional<ReshardStep> last;
};
using ReachedSpecs = std::map<TensorShardSpec, Reached>;

/// Dijkstra's algorithm from `src`, until `dst` is reached or, where it is null, all specs are.
ReachedSpecs reach(const TensorShardSpec& src, const TensorShardSpec* dst, const Shape& shape,
                   graph::DataType type, const DeviceMesh& mesh, const StepPrice& price) {
  ReachedSpecs reached{{src, {}}};
  std::set<CheapestFirst::Way, CheapestFirst> open{{Cost{}, src}};
  while (!open.empty()) {
    const auto [cost, spec] = *open.begin();
    open.erase(open.begin());
    if (dst && spec == *dst) break;
    for (ReshardStep& step : steps_from(spec, shape, mesh)) {
      const Cost next{cost.first + price(step, shape, type), cost.second + 1};
      if (std::isinf(next.first)) continue;
      require(next.first >= cost.first, "a step has no negative price");
      const auto known = reached.find(step.after);
      if (known != reached.end()) {
        if (!is_better(next, known->second.cost)) continue;
        open.erase({known->second.cost, step.after});
      }
      open.emplace(next, step.after);
      TensorShardSpec after = step.after;
      reached.insert_or_assign(std::move(after), Reached{next, std::move(step)});
    }
  }
  return reached;
}

Connection trace(const ReachedSpecs& reached, const TensorShardSpec& dst) {
  const Reached* at = &reached.at(dst);
  Connection connection{.steps = {}, .seconds = at->cost.first};
  for (; at->last; at = &reached.at(at->last->before)) connection.steps.push_back(*at->last);
  std::ranges::reverse(connection.steps);
  return connection;
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

bool can_connect(const TensorShardSpec& src, const TensorShardSpec& dst) {
  return std::ranges::includes(src.partial, dst.partial) &&
         (!dst.is_partial() || src.reduce == dst.reduce);
}

Connection connect(const TensorShardSpec& src, const TensorShardSpec& dst, const Shape& shape,
                   graph::DataType type, const DeviceMesh& mesh, const StepPrice& price) {
  require(src.dims.size() == shape.size() && dst.dims.size() == shape.size(),
          "specs have one entry a dimension");
  require(can_connect(src, dst), "a connection's end is partial only where its start is");

  const ReachedSpecs reached = reach(src, &dst, shape, type, mesh, price);
  if (reached.contains(dst)) return trace(reached, dst);
  throw InternalError("internal error: no chain of steps from " + to_string(src) + " to " +
                      to_string(dst));
}

std::map<TensorShardSpec, double> connection_seconds(const TensorShardSpec& src, const Shape& shape,
                                                     graph::DataType type, const DeviceMesh& mesh,
                                                     const StepPrice& price) {
  require(src.dims.size() == shape.size(), "specs have one entry a dimension");
  std::map<TensorShardSpec, double> seconds;
  for (const auto& [spec, how] : reach(src, nullptr, shape, type, mesh, price)) {
    seconds.emplace_hint(seconds.end(), spec, how.cost.first);
  }
  return seconds;
}

}  // namespace autopar::sharding
