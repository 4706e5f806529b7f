#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time_limit.h"
#include "cost/cost_model.h"
#include "sharding/connect.h"

namespace autopar::cost {

/// The seconds of the cheapest chains of steps between the specs of any tensors. Each step is
/// priced once for all tensors of a shape and type. Keeps a reference to the cost model.
class ConnectionPrices {
 public:
  /// With `symmetric` axes all specs are canonical, as sharding::ConnectionSeconds has it.
  /// What is asked for after the limit, if there is one, throws OutOfTime.
  explicit ConnectionPrices(const CostModel& cost, sharding::SymmetricAxes symmetric = {},
                            std::optional<TimeLimit> limit = {})
      : cost_(cost), symmetric_(std::move(symmetric)), limit_(limit), price_(cost.step_price()) {}

  /// In place of the one before; none: prices may take as long as they do.
  void set_limit(std::optional<TimeLimit> limit) { limit_ = limit; }
  /// Throws OutOfTime after the limit.
  void check_limit() const {
    if (limit_) limit_->check();
  }

  /// From each to each, those from one together; infinite where no chain leads.
  std::vector<double> seconds(std::span<const sharding::TensorShardSpec> from,
                              std::span<const sharding::TensorShardSpec> to,
                              const sharding::Shape& shape, graph::DataType type);
  /// The same as CostModel::reduction_seconds.
  double reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                           const sharding::ShardingRule& rule, const sharding::OpShardSpec& spec);

 private:
  const CostModel& cost_;
  const sharding::SymmetricAxes symmetric_;
  std::optional<TimeLimit> limit_;
  const sharding::StepPrice price_;
  std::map<std::pair<sharding::Shape, graph::DataType>, sharding::ConnectionSeconds> known_;
};

}  // namespace autopar::cost
