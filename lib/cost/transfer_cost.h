#pragma once

#include <cstdint>

#include "cost/device_model.h"

namespace autopar::cost {

/// A tensor's way from the devices of one stage to those of the next: each element crosses once,
/// spread over as many links as the smaller side has, so that it does not matter how the tensor is
/// split on either side: latency + bytes / (min(senders, receivers) * bandwidth).
double transfer_seconds(std::int64_t bytes, int senders, int receivers, const Link& link);

/// The link between a stage whose first rank is `first_rank` and the stage before it. Where devices
/// stand in nodes: that between nodes if a node begins there, else that within a node. Else the
/// first one.
const Link& boundary_link(const DeviceModel& device, int first_rank);

}  // namespace autopar::cost
