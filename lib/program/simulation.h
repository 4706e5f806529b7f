#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/device_model.h"
#include "program/pipeline_program.h"

namespace autopar::program {

/// One operator, collective or transfer of one microbatch, as it would run on one rank.
struct SimulatedStep {
  enum class Lane { computation, communication, receive, send } lane = Lane::computation;
  std::string node;  ///< as it is called in the rank's shard
  std::string op_type;
  int microbatch = 0;
  double begin_seconds = 0;  ///< from the run's begin
  double seconds = 0;
  std::optional<std::int64_t> bytes;  ///< of payload, for what communicates
};

/// Simulates a run of a plan on the cost model. All ranks of a stage work at once, step after step,
/// on a microbatch that was received. A stage sends over one link, value by value, while it goes on
/// with the next microbatch, and at most one further, for which there is room. So a run ends when
/// pipeline_seconds says (under latency).
class Simulation {
 public:
  /// All must outlive it.
  Simulation(const plan::PipelinePlan& plan, const PipelineProgram& program,
             const cost::DeviceModel& device);

  double seconds() const { return seconds_; }
  /// A rank's steps, by microbatch, in the order of its shard.
  std::vector<SimulatedStep> steps(int rank) const;

 private:
  struct Interval {
    double begin = 0;
    double end = 0;
  };
  /// By microbatch.
  struct StageTimes {
    std::vector<Interval> work;
    std::vector<Interval> transfer;
  };

  const plan::PipelinePlan& plan_;
  const PipelineProgram& program_;
  const cost::DeviceModel& device_;
  std::vector<std::vector<double>> instruction_seconds_;  ///< by stage and instruction
  std::vector<double> transfer_seconds_;                  ///< by transfer
  std::vector<StageTimes> times_;
  double seconds_ = 0;
};

}  // namespace autopar::program
