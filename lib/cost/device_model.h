#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/data_type.h"

namespace autopar::cost {

/// A mesh axis's interconnect as one device sees it.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

/// What the cost model knows of one device and its links.
struct DeviceModel {
  std::string name;
  std::string source;                                  ///< where the numbers come from
  std::map<graph::DataType, double> flops_per_second;  ///< matrix arithmetic by element type
  double memory_bytes_per_second = 0;
  double launch_seconds = 0;
  std::int64_t memory_bytes = 0;
  /// By mesh axis, the last one serving all further axes. Never empty. Where devices stand in
  /// nodes: the link within a node, then the one between nodes.
  std::vector<Link> links;
  int gpus_per_node = 0;  ///< consecutive ranks; 0: devices do not stand in nodes

  /// Of an axis where devices do not stand in nodes.
  const Link& link(int axis) const;
  /// The type's rate; a type without one takes float32's.
  double flops(graph::DataType type) const;
};

/// A preset by name ("h200", "h100", "a100", "v100", "l4", "cpu") or a JSON file of the same
/// fields. Throws Error that lists the presets or names the missing or malformed field.
DeviceModel load_device_model(const std::string& name_or_file);
std::vector<std::string> device_preset_names();

}  // namespace autopar::cost
