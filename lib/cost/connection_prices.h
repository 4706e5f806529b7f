#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time_limit.h"
#include "cost/cost_model.h"
#include "sharding/connection_seconds.h"

namespace autopar::cost {

/// The seconds of the cheapest chains of steps between the specs of any values. Each step is priced
/// once for all values of a shape, type and order in memory, and chains that differ only in which
/// of symmetric axes they use are found once. Keeps a reference to the cost model.
class ConnectionPrices {
 public:
  /// With `relaxed` axes all specs are canonical, as sharding::ConnectionSeconds has it.
  /// What is asked for after the limit, if there is one, throws OutOfTime.
  explicit ConnectionPrices(const CostModel& cost, sharding::SymmetricAxes relaxed = {},
                            std::optional<TimeLimit> limit = {});

  /// In place of the one before; none: prices may take as long as they do.
  void set_limit(std::optional<TimeLimit> limit) { limit_ = limit; }
  /// How many threads find prices; at first one.
  void set_threads(std::size_t threads) { threads_ = threads; }
  /// Throws OutOfTime after the limit.
  void check_limit() const {
    if (limit_) limit_->check();
  }

  /// From each to each, those from one together; infinite where no chain leads.
  std::vector<double> seconds(std::span<const sharding::TensorShardSpec> from,
                              std::span<const sharding::TensorShardSpec> to,
                              const graph::Value& value);
  /// The same as CostModel::reduction_seconds.
  double reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                           const sharding::ShardingRule& rule, const sharding::OpShardSpec& spec);

 private:
  const CostModel& cost_;
  sharding::AlikeAxes alike_;
  std::optional<TimeLimit> limit_;
  std::size_t threads_ = 1;
  std::map<MovedTensor, sharding::ConnectionSeconds> known_;
};

}  // namespace autopar::cost
