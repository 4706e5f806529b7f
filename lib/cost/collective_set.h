#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "graph/data_type.h"
#include "sharding/connect.h"

namespace autopar::cost {

/// The collectives of a runtime that has no others, all of equal shares.
struct CollectiveSet {
  std::string name;                                               ///< as --shards has it
  std::map<sharding::StepKind, std::set<graph::DataType>> types;  ///< of each kind that it has
  std::set<sharding::Reduce> reductions;
  /// Over all ranks alone; else over any group, in the order of ranks.
  bool is_of_world;
  /// Gathers, scatters and exchanges along dimension 0; along others by transposes.
  bool is_of_outermost;

  /// Whether it can do the step on a tensor of this global shape. It can do every slice, and what
  /// moves nothing since the group has one rank.
  bool has(const sharding::ReshardStep& step, const sharding::Shape& shape, graph::DataType type,
           const sharding::DeviceMesh& mesh) const;
  /// Whether the step takes a transpose before and another behind it.
  bool transposes(const sharding::ReshardStep& step) const;
};

/// ONNX Runtime's own operators of domain com.microsoft, as its schemas (collective_defs.cc) and
/// kernels (nccl_kernels.cc) of 2024 have them: AllReduce adds up, AllGather and AllToAll move; all
/// are over MPI's world. Older ones move floating-point numbers alone.
std::shared_ptr<const CollectiveSet> onnx_runtime_collectives();

/// TensorRT's DistCollective in what its versions since 10.16 have in common (NVIDIA's page of the
/// operator): ALL_REDUCE, ALL_GATHER and REDUCE_SCATTER along the first dimension, among all ranks
/// or a group of them. ALL_TO_ALL came with 11 and is left out.
std::shared_ptr<const CollectiveSet> tensorrt_collectives();

}  // namespace autopar::cost
