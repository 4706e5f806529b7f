// Dijkstra's algorithm over specs. A step removes part of what separates source from destination or
// moves it elsewhere; every step keeps a spec that local_ranges understands: axes leave a dimension
// from its minor end and enter it there.

#include "sharding/connect.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <utility>

namespace autopar::sharding {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

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

/// Calls `visit` with each step that leads away from one spec of a tensor, which it may keep as a
/// copy. What one axis of a coarser mesh does in one step, its run of axes of a finer mesh does in
/// one, too.
template <typename Visit>
void for_each_step_from(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                        Visit visit) {
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
  for (const std::vector<int>& axes : subsets(spec.partial)) {
    TensorShardSpec reduced = spec;
    std::erase_if(reduced.partial,
                  [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); });
    if (!reduced.is_partial()) reduced.reduce = Reduce::sum;
    begin(StepKind::all_reduce, axes, -1, -1, reduced);
    visit(step);
    for (int d = 0; d < num_dims; ++d) {
      if (shape[d] < 2) continue;
      split(begin(StepKind::reduce_scatter, axes, d, -1, reduced), d, axes);
      visit(step);
    }
  }
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
    for (int first = 0; shape[d] > 1 && first < mesh.num_axes(); ++first) {
      std::vector<int> run;  // neighbours are one axis of a coarser mesh
      for (int axis = first; axis < mesh.num_axes() && !spec.uses(axis); ++axis) {
        run.push_back(axis);
        split(begin(StepKind::slice, run, d, -1, spec), d, run);
        visit(step);
      }
    }
  }
}

/// Seconds, and the number of steps, which tells equal seconds apart.
using Cost = std::pair<double, int>;

/// Where costs are equal, the spec that splits outer dimensions goes on first: what is gathered
/// along them need not be packed. The answer is the same on every machine.
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

/// Dijkstra's algorithm from `src` until `dst` is reached.
ReachedSpecs reach(const TensorShardSpec& src, const TensorShardSpec& dst, const Shape& shape,
                   graph::DataType type, const DeviceMesh& mesh, const StepPrice& price) {
  ReachedSpecs reached{{src, {}}};
  std::set<CheapestFirst::Way, CheapestFirst> open{{Cost{}, src}};
  while (!open.empty()) {
    const auto [cost, spec] = *open.begin();
    open.erase(open.begin());
    if (spec == dst) break;
    for_each_step_from(spec, shape, mesh, [&, &cost = cost](const ReshardStep& step) {
      const Cost next{cost.first + price(step, shape, type), cost.second + 1};
      if (std::isinf(next.first)) return;
      require(next.first >= cost.first, "a step has no negative price");
      const auto known = reached.find(step.after);
      if (known != reached.end()) {
        if (!is_better(next, known->second.cost)) return;
        open.erase({known->second.cost, step.after});
      }
      open.emplace(next, step.after);
      reached.insert_or_assign(step.after, Reached{next, step});
    });
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

  const ReachedSpecs reached = reach(src, dst, shape, type, mesh, price);
  if (reached.contains(dst)) return trace(reached, dst);
  throw InternalError("internal error: no chain of steps from " + to_string(src) + " to " +
                      to_string(dst));
}

double ConnectionSeconds::of(const TensorShardSpec& src, const TensorShardSpec& dst) {
  return between({&src, 1}, {&dst, 1}).front();
}

std::vector<double> ConnectionSeconds::between(std::span<const TensorShardSpec> from,
                                               std::span<const TensorShardSpec> to) {
  const std::vector<Number> destinations = numbers_of(to);
  std::vector<double> all;
  for (const Number src : numbers_of(from)) {
    const Ways& known = ways(src, destinations);
    for (const Number dst : destinations)
      all.push_back(known.is_final(dst) ? known.seconds[dst] : infinite);
  }
  return all;
}

std::vector<ConnectionSeconds::Number> ConnectionSeconds::numbers_of(
    std::span<const TensorShardSpec> specs) {
  std::vector<Number> numbers;
  for (const TensorShardSpec& spec : specs) {
    require(spec.dims.size() == shape_.size(), "specs have one entry a dimension");
    numbers.push_back(number_of(spec));
  }
  return numbers;
}

ConnectionSeconds::SpecKey ConnectionSeconds::key_of(const TensorShardSpec& spec) {
  constexpr int axes_in_word = 5;
  constexpr int bits_of_axis = 12;
  constexpr int bits_of_place = 4;
  static_assert(DeviceMesh::max_axes <= 2 * axes_in_word);
  SpecKey key{0, static_cast<std::uint64_t>(spec.reduce) << (axes_in_word * bits_of_axis)};
  const auto add = [&key](const std::vector<int>& axes, std::uint64_t where) {
    for (std::size_t place = 0; place < axes.size(); ++place)
      key[axes[place] / axes_in_word] |= (where << bits_of_place | place)
                                         << (axes[place] % axes_in_word * bits_of_axis);
  };
  constexpr std::uint64_t partial = (1U << (bits_of_axis - bits_of_place)) - 1;
  require(spec.dims.size() < partial, "a tensor has fewer dimensions");
  add(spec.partial, partial);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) add(spec.dims[d], d + 1);
  return key;
}

std::size_t ConnectionSeconds::KeyHash::operator()(const SpecKey& key) const {
  std::uint64_t hash = key[0] * 0x9e3779b97f4a7c15 ^ (key[1] + 1) * 0xc2b2ae3d27d4eb4f;
  return hash ^ hash >> 29;
}

ConnectionSeconds::Number ConnectionSeconds::number_of(const TensorShardSpec& spec) {
  const auto [entry, is_new] = numbers_.try_emplace(key_of(spec), specs_.size());
  if (is_new) {
    specs_.push_back(spec);
    steps_.emplace_back();
  }
  return entry->second;
}

const std::vector<ConnectionSeconds::Step>& ConnectionSeconds::steps_of(Number from) {
  if (steps_[from]) return *steps_[from];
  std::vector<Step>& steps = steps_[from].emplace();
  const auto add = [&](const TensorShardSpec& spec) {
    for_each_step_from(spec, shape_, mesh_, [&](const ReshardStep& step) {
      const double seconds = price_(step, shape_, type_);
      require(!(seconds < 0), "a step has no negative price");
      if (std::isinf(seconds)) return;
      const bool is_exact = symmetric_.empty();
      steps.push_back(
          {number_of(is_exact ? step.after : canonical(step.after, symmetric_)), seconds});
    });
  };
  const TensorShardSpec spec = specs_[from];
  if (symmetric_.empty())
    add(spec);
  else
    for (const TensorShardSpec& order : orders_of(spec, symmetric_)) add(order);
  std::ranges::sort(steps, {}, [](const Step& step) { return std::pair(step.to, step.seconds); });
  const auto is_same_way = [](const Step& a, const Step& b) { return a.to == b.to; };
  steps.erase(std::unique(steps.begin(), steps.end(), is_same_way), steps.end());  // cheapest first
  return steps;
}

void ConnectionSeconds::Ways::offer(Number to, double seconds_of_way) {
  if (to >= seconds.size()) {
    seconds.resize(to + 1, infinite);
    are_final.resize(to + 1, 0);
  }
  if (seconds_of_way >= seconds[to]) return;
  seconds[to] = seconds_of_way;
  open.emplace(seconds_of_way, to);
}

const ConnectionSeconds::Ways& ConnectionSeconds::ways(Number src,
                                                       std::span<const Number> destinations) {
  const auto [entry, is_new] = ways_.try_emplace(src);
  Ways& known = entry->second;
  if (is_new) known.offer(src, 0);
  std::set<Number> wanted;
  for (const Number dst : destinations) {
    if (known.is_final(dst)) continue;
    // Canonical specs name axes that others may stand for.
    if (!symmetric_.empty() || can_connect(specs_[src], specs_[dst])) wanted.insert(dst);
  }
  while (!wanted.empty() && !known.open.empty()) {
    const auto [seconds, spec] = known.open.top();
    known.open.pop();
    if (known.is_final(spec)) continue;
    known.are_final[spec] = 1;
    wanted.erase(spec);
    for (const Step& step : steps_of(spec)) known.offer(step.to, seconds + step.seconds);
  }
  return known;
}

}  // namespace autopar::sharding
