#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cost/collective_set.h"
#include "cost/sized_rate.h"
#include "graph/data_type.h"
#include "sharding/connect.h"

namespace autopar::cost {

/// The time of one step of a collective: latency_seconds + bytes / bytes_per_second.
struct LinkSpeed {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};

/// A mesh axis's interconnect as one device sees it.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  /// The speeds of collectives that were measured by themselves: between threads an all-reduce adds
  /// where an all-gather copies.
  std::map<sharding::StepKind, LinkSpeed> by_kind = {};

  LinkSpeed speed(sharding::StepKind kind) const;
  friend bool operator==(const Link&, const Link&) = default;
};

/// Names of values of a model.
using ValueNames = std::set<std::string, std::less<>>;

/// One device and its links, as the cost model knows them.
struct DeviceModel {
  std::string name;
  std::string source;  ///< where the numbers come from
  /// Matrix arithmetic by element type and by the operations of one product, those of a batch
  /// apart. Never falls with the size.
  std::map<graph::DataType, SizedRate> flops_per_second;
  /// By the bytes that an operator reads and writes: few may stay in a cache. More bytes never take
  /// less time.
  SizedRate memory_bytes_per_second;
  /// The rate for weights, which a run reads once, so that no cache has them; 0: as all else.
  double weight_bytes_per_second = 0;
  /// The part of the shorter of an operator's arithmetic and traffic that is hidden behind the
  /// longer: 0 where they follow one another, 1 where only the longer counts.
  double overlap = 1;
  double launch_seconds = 0;
  /// Seconds for each element of an operator's largest tensor, by qualified type ("Tanh",
  /// "com.microsoft::FastGelu"), where arithmetic takes longer than traffic.
  std::map<std::string, double, std::less<>> element_seconds = {};
  /// Whether fusions of the runtime are priced; needs `fused`.
  bool is_fusing = false;
  /// Values of the model at hand that are never stored, since the runtime makes one kernel of their
  /// producers and readers. Not in the device file; null where not known.
  std::shared_ptr<const ValueNames> fused = nullptr;
  /// Its name for `autopar run --device`: "cpu" or "cuda"; empty where that is not known.
  std::string runs_on = {};
  /// Values of the model at hand, as in `fused`, that take no memory of their own on such a device,
  /// since they are never stored or are views of others. Null where not known: then each value
  /// counts, with what packing may waste (graph::with_arena_slack).
  std::shared_ptr<const ValueNames> without_memory = nullptr;
  /// Values of the model at hand that autopar's runtime has with their channels last on this
  /// device. Not in the device file; null: none.
  std::shared_ptr<const ValueNames> channels_last = nullptr;
  /// The collectives that there are where shards are for another runtime. Not in the device file;
  /// null: all.
  std::shared_ptr<const CollectiveSet> collectives = nullptr;
  std::int64_t memory_bytes = 0;
  /// By mesh axis, the last one serving all further axes. Never empty. Where devices stand in
  /// nodes: the link within a node, then the one between nodes.
  std::vector<Link> links;
  int gpus_per_node = 0;  ///< consecutive ranks; 0: devices do not stand in nodes
  int nodes = 0;          ///< that the cluster has; 0: as many as are asked for

  /// An axis's link where devices do not stand in nodes.
  const Link& link(int axis) const;
  /// The link between a stage whose first rank is `first_rank` and the stage before it. Where
  /// devices stand in nodes: that between nodes if a node begins there, else that within a node.
  /// Else the first one.
  const Link& boundary_link(int first_rank) const;
  /// The type's rate; a type without one takes float32's.
  const SizedRate& flops(graph::DataType type) const;
  /// Throws Error where the cluster has fewer devices.
  void check_has(int devices) const;
};

/// A tensor's way from the devices of one stage to those of the next: each element crosses once,
/// spread over as many links as the smaller side has, so that it does not matter how the tensor is
/// split on either side: latency + bytes / (min(senders, receivers) * bandwidth).
double transfer_seconds(std::int64_t bytes, int senders, int receivers, const Link& link);

/// A preset by name (device_preset_names) or a JSON file of the same fields. Throws Error that
/// lists the presets or names the missing or malformed field.
DeviceModel load_device_model(const std::string& name_or_file);
std::vector<std::string> device_preset_names();  ///< device_presets.cpp has their sources

}  // namespace autopar::cost
