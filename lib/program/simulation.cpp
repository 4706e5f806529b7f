#include "program/simulation.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "cost/cost_model.h"

namespace autopar::program {

namespace {

using graph::Graph;
using graph::Node;
using plan::PipelinePlan;
using plan::StagePlan;
using Lane = SimulatedStep::Lane;

std::vector<double> seconds_of_instructions(const Program& program,
                                            const cost::DeviceModel& device) {
  const Graph& graph = program.graph;
  const cost::CostModel cost(device, program.mesh);
  std::vector<double> seconds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node == graph::no_node) {
      const graph::Value& value = program.value_of(instruction);
      seconds.push_back(cost.step_seconds(instruction.step, value));
      continue;
    }
    const Node& node = graph.node(instruction.node);
    seconds.push_back(cost.operator_seconds(graph, node, sharding::rule_or_replicated(graph, node),
                                            program.operators[instruction.node]));
  }
  return seconds;
}

std::vector<double> seconds_of_transfers(const PipelinePlan& plan, const PipelineProgram& program,
                                         const cost::DeviceModel& device) {
  std::vector<double> seconds;
  for (const Transfer& transfer : program.transfers) {
    const StagePlan& from = plan.stages[transfer.from_stage];
    const StagePlan& to = plan.stages[transfer.from_stage + 1];
    seconds.push_back(cost::transfer_seconds(
        graph::bytes_of(transfer.type, graph::num_elements(transfer.shape)), from.num_devices(),
        to.num_devices(), device.boundary_link(to.first_rank)));
  }
  return seconds;
}

/// Which instruction each node of a shard stands for: an operator by its name, a collective or a
/// slice by its place. -1 for nodes that a rule adds around its operator, which take no time.
class NodeInstructions {
 public:
  explicit NodeInstructions(const Program& program) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.node != graph::no_node) {
        operators_[program.graph.node(instruction.node).name] = static_cast<int>(i);
      } else {
        (instruction.is_collective() ? collectives_ : slices_).push_back(static_cast<int>(i));
      }
    }
  }

  int next(const Node& node) {
    if (const auto found = operators_.find(node.name); found != operators_.end())
      return found->second;
    if (node.domain == graph::collective_domain) return collectives_.at(next_collective_++);
    const bool is_slice = node.op_type == "Slice" && node.name.find("/slice") != std::string::npos;
    return is_slice && next_slice_ < slices_.size() ? slices_[next_slice_++] : -1;
  }

 private:
  std::map<std::string, int> operators_;
  std::vector<int> collectives_;
  std::vector<int> slices_;
  std::size_t next_collective_ = 0;
  std::size_t next_slice_ = 0;
};

/// The bytes of a value that the rank sends.
std::int64_t sent_bytes(const Transfer& transfer, int rank) {
  std::int64_t bytes = 0;
  for (const sharding::Message& message : transfer.messages) {
    if (message.from == rank) bytes += transfer.bytes(message);
  }
  return bytes;
}

}  // namespace

Simulation::Simulation(const PipelinePlan& plan, const PipelineProgram& program,
                       const cost::DeviceModel& device)
    : plan_(plan),
      program_(program),
      device_(device),
      transfer_seconds_(seconds_of_transfers(plan, program, device)),
      times_(plan.stages.size()) {
  const std::size_t microbatches = plan.microbatches;
  const auto end_of = [](const std::vector<Interval>& intervals, std::size_t k, std::size_t back) {
    return k < back ? 0 : intervals[k - back].end;
  };
  std::vector<double> of_stage;
  for (const Program& stage : program.stages) {
    const auto& seconds = instruction_seconds_.emplace_back(seconds_of_instructions(stage, device));
    of_stage.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0));
  }
  std::vector<double> way(plan.stages.size(), 0);
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    way[program.transfers[t].from_stage] += transfer_seconds_[t];

  for (StageTimes& times : times_) {
    times.work.resize(microbatches);
    times.transfer.resize(microbatches);
  }
  for (std::size_t k = 0; k < microbatches; ++k) {
    for (std::size_t s = 0; s < times_.size(); ++s) {
      StageTimes& times = times_[s];
      const double received = s == 0 ? 0 : times_[s - 1].transfer[k].end;
      const double begin = std::max({received, end_of(times.work, k, 1),
                                     // the place of the value to send is free again
                                     end_of(times.transfer, k, 2)});
      times.work[k] = {begin, begin + of_stage[s]};
      seconds_ = std::max(seconds_, times.work[k].end);
      if (s + 1 == times_.size()) continue;
      const double sent_at = std::max({times.work[k].end, end_of(times.transfer, k, 1),
                                       // the place to receive it is free again
                                       end_of(times_[s + 1].work, k, 2)});
      times.transfer[k] = {sent_at, sent_at + way[s]};
    }
  }
}

std::vector<SimulatedStep> Simulation::steps(int rank) const {
  const std::size_t s = stage_of(plan_, rank);
  const Program& stage = program_.stages[s];
  const int rank_in_stage = rank - plan_.stages[s].first_rank;
  const Graph shard = rank_graph(plan_, program_, rank);
  std::vector<SimulatedStep> steps;
  for (std::size_t k = 0; k < times_[s].work.size(); ++k) {
    NodeInstructions instructions(stage);
    double now = times_[s].work[k].begin;
    double receive_clock = s == 0 ? 0 : times_[s - 1].transfer[k].begin;
    double send_clock = times_[s].transfer[k].begin;
    std::size_t next_received = 0;
    std::size_t next_sent = 0;
    const auto next_transfer = [&](std::size_t from_stage, std::size_t& next) {
      while (program_.transfers.at(next).from_stage != static_cast<int>(from_stage)) ++next;
      return next++;
    };
    for (const Node& node : shard.nodes) {
      SimulatedStep& step = steps.emplace_back();
      step.node = node.name;
      step.op_type = node.op_type;
      step.microbatch = static_cast<int>(k);
      double* clock = &now;
      if (node.domain == graph::collective_domain && node.op_type == "Recv") {
        step.lane = Lane::receive;
        step.seconds = transfer_seconds_[next_transfer(s - 1, next_received)];
        clock = &receive_clock;
      } else if (node.domain == graph::collective_domain && node.op_type == "Send") {
        const std::size_t transfer = next_transfer(s, next_sent);
        step.lane = Lane::send;
        step.seconds = transfer_seconds_[transfer];
        step.bytes = sent_bytes(program_.transfers[transfer], rank);
        clock = &send_clock;
      } else if (const int index = instructions.next(node); index >= 0) {
        const Instruction& instruction = stage.instructions[index];
        step.seconds = instruction_seconds_[s][index];
        if (instruction.is_collective()) {
          const graph::Value& value = stage.value_of(instruction);
          step.lane = Lane::communication;
          step.bytes =
              payload_bytes(instruction.step, value.shape, value.type, stage.mesh, rank_in_stage);
        }
      }
      step.begin_seconds = *clock;
      *clock += step.seconds;
    }
  }
  return steps;
}

}  // namespace autopar::program
