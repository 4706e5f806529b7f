#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time_limit.h"
#include "cost/connection_prices.h"
#include "cost/cost_model.h"
#include "graph/stage_graph.h"
#include "plan/plan.h"
#include "search/pins.h"

namespace autopar::search {

/// What connects specs, priced once for several problems of one graph on one mesh.
using SharedPrices = std::shared_ptr<cost::ConnectionPrices>;
/// These, or new ones where there are none.
inline SharedPrices prices_or_own(SharedPrices prices, const cost::CostModel& cost) {
  return prices ? std::move(prices) : std::make_shared<cost::ConnectionPrices>(cost);
}

/// Strategies that use all mesh axes but the free ones as those of a plan do, in the orders of
/// sharding::op_shard_specs_near. A problem of these alone is small on many axes, too, and its best
/// plan is a step of descent from that plan: all operators may change at once, each on free axes.
struct Neighbourhood {
  const plan::Plan* plan = nullptr;  ///< of the graph, on the mesh; null: all strategies
  std::vector<int> free_axes{};      ///< ascending; these may be used otherwise
  SharedPrices prices{};             ///< of the profile's cost model, known from other steps
};

/// A relaxation of the search: which of symmetric axes a tensor uses is not told apart. Its
/// strategies are canonical, and what connects them is the cheapest between any that they stand
/// for. The few that are left make a small problem on many axes, whose bound holds for all plans.
struct Symmetry {
  sharding::SymmetricAxes axes{};      ///< empty: all are told apart
  const plan::Plan* chosen = nullptr;  ///< of the relaxation: all that it stands for, instead
  std::optional<TimeLimit> limit{};    ///< to build the problem: OutOfTime is thrown after it

  bool is_relaxed() const { return !axes.empty() && chosen == nullptr; }
  /// Those that are not told apart.
  sharding::SymmetricAxes relaxed() const {
    return is_relaxed() ? axes : sharding::SymmetricAxes{};
  }
};

/// What copies of one tensor for several readers cost.
enum class Copies {
  priced,  ///< as they do
  relaxed  ///< no more, where that makes a smaller problem: for a bound
};

/// The model under one binding of its symbolic dimensions. Several are planned together: weights
/// and states lie one way for all of them, operators may be split differently in each, and the
/// objective is the sum of their seconds, each times its weight.
struct Profile {
  const graph::StageGraph* stage = nullptr;  ///< outlives the search
  const cost::CostModel* cost = nullptr;     ///< fitted to this graph; all are of one mesh
  double weight = 1;                         ///< above 0
  std::string name{};                        ///< what pins call it
  Neighbourhood near{};                      ///< to which the search keeps
  Symmetry symmetry{};
  Copies copies = Copies::priced;
};

/// The same profiles on another mesh, with all strategies. It refers to itself.
struct ProfilesOn {
  ProfilesOn(const sharding::DeviceMesh& mesh, std::span<const Profile> of);
  ProfilesOn(const ProfilesOn&) = delete;

  std::deque<cost::CostModel> costs{};
  std::vector<Profile> profiles;
};

/// The pins that are for each profile: all that say nothing of profiles and name something in it,
/// and those of its name. What names nothing in any profile is left to the first, which refuses it.
/// Throws Error for a profile that there is none of.
std::vector<std::vector<Pin>> pins_by_profile(const std::vector<Pin>& pins,
                                              std::span<const Profile> profiles);

}  // namespace autopar::search
