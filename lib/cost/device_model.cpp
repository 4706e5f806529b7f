#include "cost/device_model.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::cost {

LinkSpeed Link::speed(sharding::StepKind kind) const {
  const auto found = by_kind.find(kind);
  return found != by_kind.end() ? found->second : LinkSpeed{latency_seconds, bytes_per_second};
}

const Link& DeviceModel::link(int axis) const {
  require(!links.empty() && axis >= 0, "a device has a link for every mesh axis");
  return links[std::min(static_cast<std::size_t>(axis), links.size() - 1)];
}

const Link& DeviceModel::boundary_link(int first_rank) const {
  return links[gpus_per_node > 0 && first_rank % gpus_per_node == 0 ? 1 : 0];
}

const SizedRate& DeviceModel::flops(graph::DataType type) const {
  const auto found = flops_per_second.find(type);
  return found != flops_per_second.end() ? found->second
                                         : flops_per_second.at(graph::DataType::float32);
}

void DeviceModel::check_has(int devices) const {
  const std::int64_t all = std::int64_t{nodes} * gpus_per_node;
  if (nodes == 0 || devices <= all) return;
  fail("device '{}' has {} nodes of {}, which are {} devices: {} are too many", name, nodes,
       gpus_per_node, all, devices);
}

double transfer_seconds(std::int64_t bytes, int senders, int receivers, const Link& link) {
  return link.latency_seconds +
         static_cast<double>(bytes) / (std::min(senders, receivers) * link.bytes_per_second);
}

}  // namespace autopar::cost
