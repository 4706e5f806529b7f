#include "cost/connection_prices.h"

#include <memory>
#include <utility>

namespace autopar::cost {

using sharding::TensorShardSpec;

namespace {

/// The axes over any of which a step costs the same: none where steps, or the collectives of
/// another runtime, take axes in ascending order.
sharding::SymmetricAxes exchangeable_axes(const CostModel& cost) {
  const bool has_all_orders = cost.mesh().num_axes() <= sharding::most_axes_stepped_in_any_order &&
                              cost.device().collectives == nullptr;
  return has_all_orders ? cost.symmetric_axes() : sharding::SymmetricAxes{};
}

}  // namespace

ConnectionPrices::ConnectionPrices(const CostModel& cost, sharding::SymmetricAxes relaxed,
                                   std::optional<TimeLimit> limit)
    : cost_(cost), limit_(limit) {
  const sharding::SymmetricAxes axes = exchangeable_axes(cost);
  if (relaxed.empty() && !axes.empty())
    alike_.exchangeable = std::make_shared<const sharding::AxisRenamings>(axes);
  alike_.relaxed = std::move(relaxed);
}

std::vector<double> ConnectionPrices::seconds(std::span<const TensorShardSpec> from,
                                              std::span<const TensorShardSpec> to,
                                              const graph::Value& value) {
  check_limit();
  MovedTensor moved = cost_.as_moved(value);
  auto known = known_.find(moved);
  if (known == known_.end())
    known = known_
                .try_emplace(std::move(moved), value.shape, value.type, cost_.mesh(),
                             cost_.step_price(cost_.order_of(value)), alike_)
                .first;
  return known->second.between(from, to, limit_, threads_);
}

double ConnectionPrices::reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                                           const sharding::ShardingRule& rule,
                                           const sharding::OpShardSpec& spec) {
  const auto form_of = [this](const TensorShardSpec& each) {
    return alike_.relaxed.empty() ? each : canonical(each, alike_.relaxed);
  };
  return cost_.reduction_seconds(
      graph, node, rule, spec,
      [&](const TensorShardSpec& from, const TensorShardSpec& to, const graph::Value& value) {
        return seconds({{form_of(from)}}, {{form_of(to)}}, value).front();
      });
}

}  // namespace autopar::cost
