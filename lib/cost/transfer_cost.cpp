#include "cost/transfer_cost.h"

#include <algorithm>

namespace autopar::cost {

double transfer_seconds(std::int64_t bytes, int senders, int receivers, const Link& link) {
  return link.latency_seconds +
         static_cast<double>(bytes) / (std::min(senders, receivers) * link.bytes_per_second);
}

const Link& boundary_link(const DeviceModel& device, int first_rank) {
  if (device.gpus_per_node == 0) return device.links.front();
  return device.links[first_rank % device.gpus_per_node == 0 ? 1 : 0];
}

}  // namespace autopar::cost
