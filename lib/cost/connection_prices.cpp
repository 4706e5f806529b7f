#include "cost/connection_prices.h"

namespace autopar::cost {

using sharding::Shape;
using sharding::TensorShardSpec;

std::vector<double> ConnectionPrices::seconds(std::span<const TensorShardSpec> from,
                                              std::span<const TensorShardSpec> to,
                                              const Shape& shape, graph::DataType type) {
  check_limit();
  return known_.try_emplace({shape, type}, shape, type, cost_.mesh(), price_, symmetric_)
      .first->second.between(from, to);
}

double ConnectionPrices::reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                                           const sharding::ShardingRule& rule,
                                           const sharding::OpShardSpec& spec) {
  const auto form_of = [this](const TensorShardSpec& each) {
    return symmetric_.empty() ? each : canonical(each, symmetric_);
  };
  return cost_.reduction_seconds(
      graph, node, rule, spec,
      [&](const TensorShardSpec& from, const TensorShardSpec& to, const Shape& shape,
          graph::DataType type) {
        return seconds({{form_of(from)}}, {{form_of(to)}}, shape, type).front();
      });
}

}  // namespace autopar::cost
