#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "sharding/connect.h"
#include "sharding/device_mesh.h"

namespace autopar::cost {

/// A graph of equal, independent nodes whose time tells what one of them takes.
struct OperatorExperiment {
  std::string op_type;
  graph::DataType type = graph::DataType::float32;
  graph::Graph graph;
  Work work;  ///< of one node
};

/// Made when its turn comes, since weights are large.
using ExperimentMaker = std::function<OperatorExperiment()>;

/// The same collective several times, one after the other: this rank's graph.
struct CollectiveExperiment {
  sharding::StepKind kind = sharding::StepKind::all_reduce;
  int mesh_axis = 0;
  double bytes = 0;  ///< the payload V of the cost formulas
  graph::Graph graph;
};

enum class Extent { quick, full };

/// The measurements of one device, cheapest first: an operator that only moves memory
/// (`memory_operator`), others by element, and products, whose weights are as cold as those of a
/// model are: together they are larger than caches. Some may have no kernel on a device.
std::vector<ExperimentMaker> operator_experiments(Extent extent);
inline constexpr const char* memory_operator = "Neg";

/// The measurements between ranks, in an order that is the same for all; the groups along an axis
/// work at the same time, as they do in a run. None over an axis of one rank.
std::vector<CollectiveExperiment> collective_experiments(Extent extent,
                                                         const sharding::DeviceMesh& mesh,
                                                         int rank);

}  // namespace autopar::cost
