#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cost/sized_rate.h"
#include "graph/data_type.h"
#include "sharding/connect.h"

namespace autopar::cost {

/// What one step of a collective takes: latency_seconds + bytes / bytes_per_second.
struct LinkSpeed {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};

/// A mesh axis's interconnect as one device sees it.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  /// Of collectives that were measured by themselves: between threads, say, an all-reduce adds
  /// where an all-gather copies.
  std::map<sharding::StepKind, LinkSpeed> by_kind = {};

  LinkSpeed speed(sharding::StepKind kind) const;
  friend bool operator==(const Link&, const Link&) = default;
};

/// Names of values of a model.
using ValueNames = std::set<std::string, std::less<>>;

/// What the cost model knows of one device and its links.
struct DeviceModel {
  std::string name;
  std::string source;  ///< where the numbers come from
  /// Matrix arithmetic by element type and by the operations of one product, those of a batch
  /// apart. Never falls with the size.
  std::map<graph::DataType, SizedRate> flops_per_second;
  /// By the bytes that an operator reads and writes: few may stay in a cache. More bytes never take
  /// less time.
  SizedRate memory_bytes_per_second;
  /// Of weights, which a run reads once, so that no cache has them; 0: as all else.
  double weight_bytes_per_second = 0;
  /// Of the shorter of an operator's arithmetic and its traffic, what is hidden behind the longer:
  /// from 0, they follow one another, to 1, the longer is all.
  double overlap = 1;
  double launch_seconds = 0;
  /// Of operators that compute more than memory waits for, by type ("Tanh", "Softmax"): for each
  /// element of their largest tensor.
  std::map<std::string, double, std::less<>> element_seconds = {};
  /// Whether what the runtime fuses is priced so: needs `fused`.
  bool is_fusing = false;
  /// Not of the device file but of the model at hand, and null where it is not known: the values
  /// that are never stored, since the runtime makes one kernel of their producers and readers.
  std::shared_ptr<const ValueNames> fused = nullptr;
  /// What `autopar run --device` calls it: "cpu" or "cuda"; empty where that is not known.
  std::string runs_on = {};
  /// Values of the model at hand, as in `fused`, that take no memory of their own on such a device,
  /// since they are never stored or are views of others. Null where nobody said which they are:
  /// then each value counts, with what packing may waste (graph::with_arena_slack).
  std::shared_ptr<const ValueNames> without_memory = nullptr;
  std::int64_t memory_bytes = 0;
  /// By mesh axis, the last one serving all further axes. Never empty. Where devices stand in
  /// nodes: the link within a node, then the one between nodes.
  std::vector<Link> links;
  int gpus_per_node = 0;  ///< consecutive ranks; 0: devices do not stand in nodes
  int nodes = 0;          ///< that the cluster has; 0: as many as are asked for

  /// Of an axis where devices do not stand in nodes.
  const Link& link(int axis) const;
  /// The type's rate; a type without one takes float32's.
  const SizedRate& flops(graph::DataType type) const;
  /// Throws Error where the cluster has fewer devices.
  void check_has(int devices) const;
};

/// A preset by name (device_preset_names) or a JSON file of the same fields. Throws Error that
/// lists the presets or names the missing or malformed field.
DeviceModel load_device_model(const std::string& name_or_file);
std::vector<std::string> device_preset_names();

}  // namespace autopar::cost
