#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost/cost_model.h"

namespace autopar::cost {

/// seconds = intercept + slope * x, neither negative.
struct Line {
  double intercept = 0;
  double slope = 0;
};

/// The line of least squared relative errors: 1 % of a microsecond counts as much as 1 % of a
/// second. The y are positive. Two different x at least, or the intercept is 0.
Line fit_line(std::span<const std::pair<double, double>> xy);

/// The seconds that one operator of this type took.
struct OperatorSample {
  std::string op_type;
  graph::DataType type = graph::DataType::float32;
  Work work;
  double seconds = 0;
};

/// The seconds of one collective of `ranks` ranks with a payload of V = `bytes`.
struct CollectiveSample {
  sharding::StepKind kind = sharding::StepKind::all_reduce;
  int mesh_axis = 0;
  int ranks = 2;
  double bytes = 0;
  double seconds = 0;
};

struct Measurements {
  std::vector<OperatorSample> operators = {};
  std::vector<CollectiveSample> collectives = {};
  /// Those without samples have one rank, and get the slowest link of the others.
  int mesh_axes = 1;
};

/// The numbers of a device model that the measurements tell: launch, rates, times by element,
/// links; where nothing was sent, links cost nothing. The rest keeps its default. Throws Error
/// where something that every model needs was not measured: products of float32 and memory traffic.
DeviceModel fit_device(const Measurements& measurements);

/// How well the model's predictions agree with what it was fitted to, for one kind of measurement.
struct FitQuality {
  std::string what;  ///< "MatMul float32", "all-reduce over mesh axis 0"
  int samples = 0;
  double median_error = 0;  ///< of |predicted / measured - 1|
  double worst_error = 0;
};
std::vector<FitQuality> fit_quality(const DeviceModel& device, const Measurements& measurements);

}  // namespace autopar::cost
