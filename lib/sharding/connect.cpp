// Dijkstra's algorithm over specs. A step removes part of what separates source from destination or
// moves it elsewhere; every step keeps a spec that local_ranges understands: axes leave a dimension
// from its minor end and enter it there.

#include "sharding/connect.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace autopar::sharding {
namespace {

/// Seconds, and the number of steps, which tells equal seconds apart.
using Cost = std::pair<double, int>;

/// Where costs are equal, the spec that splits outer dimensions goes on first. The answer is the
/// same on every machine.
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

}  // namespace autopar::sharding
