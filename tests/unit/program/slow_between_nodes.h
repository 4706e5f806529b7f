#pragma once

#include "cost/device_model.h"

namespace autopar {

/// CPUs in nodes, between which bytes are so slow that they alone count, and latency does not.
inline cost::DeviceModel slow_between_nodes(int devices_per_node) {
  cost::DeviceModel device = cost::load_device_model("cpu");
  device.name = "slow between nodes";
  device.gpus_per_node = devices_per_node;
  device.launch_seconds = 0;
  device.links = {{0, 1e9}, {0, 1e6}};
  return device;
}

}  // namespace autopar
