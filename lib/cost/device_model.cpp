#include "cost/device_model.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cost/device_file.h"
#include "cost/device_presets.h"

namespace autopar::cost {

LinkSpeed Link::speed(sharding::StepKind kind) const {
  const auto found = by_kind.find(kind);
  return found != by_kind.end() ? found->second : LinkSpeed{latency_seconds, bytes_per_second};
}

const Link& DeviceModel::link(int axis) const {
  require(!links.empty() && axis >= 0, "a device has a link for every mesh axis");
  return links[std::min(static_cast<std::size_t>(axis), links.size() - 1)];
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

DeviceModel load_device_model(const std::string& name_or_file) {
  for (const DeviceModel& preset : device_presets()) {
    if (preset.name == name_or_file) return preset;
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_file, ignored)) {
    return load_device_file(name_or_file);
  }
  std::string names;
  for (const std::string& name : device_preset_names()) names += (names.empty() ? "" : ", ") + name;
  fail("device '{}' is neither a preset ({}) nor a file; give one of them", name_or_file, names);
}

std::vector<std::string> device_preset_names() {
  std::vector<std::string> names;
  for (const DeviceModel& preset : device_presets()) names.push_back(preset.name);
  return names;
}

}  // namespace autopar::cost
