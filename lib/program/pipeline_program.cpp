#include "program/pipeline_program.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/unique_names.h"
#include "cost/cost_model.h"
#include "graph/message_boxes.h"

namespace autopar::program {

namespace {

using graph::Graph;
using graph::Node;
using graph::Range;
using graph::StageGraph;
using graph::ValueId;
using plan::PipelinePlan;
using plan::StagePlan;
using sharding::Message;

/// The values that a stage sends to the next one.
void append_transfers(const StagePlan& from, const StagePlan& to, int from_stage,
                      std::vector<Transfer>& transfers) {
  const Graph& graph = from.stage.graph;
  require(from.stage.sent.size() == to.stage.received.size(), "what is sent is received");
  for (std::size_t i = 0; i < from.stage.sent.size(); ++i) {
    const graph::Value& value = graph.value(from.stage.sent[i]);
    const ValueId received = to.stage.received[i];
    require(to.stage.graph.value(received).name == value.name, "what is sent is received");
    Transfer& transfer =
        transfers.emplace_back(Transfer{value.name, from_stage, value.type, value.shape, {}});
    transfer.messages = sharding::cross_mesh_messages(
        from.plan.spec_of(graph, from.stage.sent[i]), from.plan.mesh,
        to.plan.spec_of(to.stage.graph, received), to.plan.mesh, value.shape);
    for (Message& message : transfer.messages) {
      message.from += from.first_rank;
      message.to += to.first_rank;
    }
  }
}

/// A value that a stage's rank sends or receives.
struct Exchange {
  ValueId value = graph::no_value;  ///< of the stage's graph
  int rank = 0;                     ///< in the world
  std::vector<std::int64_t> peers{};
  std::vector<const std::vector<Range>*> boxes{};  ///< by peer, of the whole value
};

/// `self` is the end of a message that the rank is, `other` its peer's.
Exchange exchange_of(ValueId value, int rank, const Transfer& transfer, int Message::*self,
                     int Message::*other) {
  Exchange exchange{value, rank};
  for (const Message& message : transfer.messages) {
    if (message.*self != rank) continue;
    exchange.peers.push_back(message.*other);
    exchange.boxes.push_back(&message.box);
  }
  return exchange;
}

/// A Recv or Send node without its value. Boxes are told within `part`, what the rank has of it.
Node transfer_node(std::string name, const char* op_type, const Exchange& exchange,
                   const std::vector<Range>& part) {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  for (const std::vector<Range>* box : exchange.boxes) {
    for (std::size_t d = 0; d < box->size(); ++d) {
      starts.push_back((*box)[d].begin - part[d].begin);
      ends.push_back((*box)[d].end - part[d].begin);
    }
  }
  return {std::move(name),
          op_type,
          graph::collective_domain,
          {},
          {},
          {{"rank", std::int64_t{exchange.rank}},
           {"peers", exchange.peers},
           {"starts", starts},
           {"ends", ends}}};
}

/// Adds Recv and Send nodes to the graph of a stage's rank, whose inputs and outputs stand in the
/// order of the stage's.
void add_transfers(const StageGraph& stage, const plan::Plan& plan, int rank_in_stage,
                   const std::vector<Exchange>& received, const std::vector<Exchange>& sent,
                   Graph& shard) {
  UniqueNames names("#");
  names.insert_names(shard.nodes);
  const auto node_for = [&](const char* op_type, const Exchange& exchange) {
    const graph::Value& value = stage.graph.value(exchange.value);
    return transfer_node(names.take(value.name + "/" + op_type), op_type, exchange,
                         local_ranges(plan.spec_of(stage.graph, exchange.value), value.shape,
                                      plan.mesh, rank_in_stage));
  };
  std::vector<Node> receives;
  for (const Exchange& exchange : received) {
    const auto place = std::ranges::find(stage.graph.inputs, exchange.value);
    const ValueId made = shard.inputs[place - stage.graph.inputs.begin()];
    Node& node = receives.emplace_back(node_for("Recv", exchange));
    node.outputs = {made};
    node.attributes["shape"] = shard.value(made).shape;
    node.attributes["dtype"] = static_cast<std::int64_t>(shard.value(made).type);
  }
  std::ranges::move(receives, std::inserter(shard.nodes, shard.nodes.begin()));
  for (const Exchange& exchange : sent) {
    const auto place = std::ranges::find(stage.graph.outputs, exchange.value);
    shard.nodes.push_back(node_for("Send", exchange));
    shard.nodes.back().inputs = {shard.outputs[place - stage.graph.outputs.begin()]};
  }
  shard.inputs.resize(stage.model_inputs.size());
  shard.outputs.resize(stage.model_outputs.size());
}

}  // namespace

std::int64_t Transfer::bytes(const sharding::Message& message) const {
  return graph::bytes_of(type, graph::num_elements(message.box));
}

PipelineProgram lower(const PipelinePlan& plan, const cost::DeviceModel& device) {
  PipelineProgram program;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    program.stages.push_back(
        lower(stage.stage.graph, stage.plan, cost::CostModel(device, stage.plan.mesh)));
    if (s > 0)
      append_transfers(plan.stages[s - 1], stage, static_cast<int>(s) - 1, program.transfers);
  }
  return program;
}

std::size_t stage_of(const PipelinePlan& plan, int rank) {
  std::size_t stage = 0;
  while (rank >= plan.stages[stage].first_rank + plan.stages[stage].num_devices()) ++stage;
  return stage;
}

Graph rank_graph(const PipelinePlan& plan, const PipelineProgram& program, int rank) {
  const std::size_t s = stage_of(plan, rank);
  const StagePlan& stage = plan.stages[s];
  const int rank_in_stage = rank - stage.first_rank;
  Graph shard = rank_graph(program.stages[s], rank_in_stage, stage.first_rank);
  std::vector<Exchange> received;
  std::vector<Exchange> sent;
  for (const Transfer& transfer : program.transfers) {
    if (transfer.from_stage + 1 == static_cast<int>(s))
      received.push_back(exchange_of(stage.stage.received[received.size()], rank, transfer,
                                     &Message::to, &Message::from));
    if (transfer.from_stage == static_cast<int>(s))
      sent.push_back(
          exchange_of(stage.stage.sent[sent.size()], rank, transfer, &Message::from, &Message::to));
  }
  add_transfers(stage.stage, stage.plan, rank_in_stage, received, sent, shard);
  return shard;
}

std::vector<bundle::CollectiveTotal> collective_totals(const PipelinePlan& plan,
                                                       const PipelineProgram& program) {
  std::vector<bundle::CollectiveTotal> totals;
  const auto add = [&](bundle::CollectiveTotal total) {
    total.count *= plan.microbatches;
    total.bytes *= plan.microbatches;
    bundle::add_collective(totals, total);
  };
  for (const Program& stage : program.stages) {
    for (const auto& total : collective_totals(stage)) add(total);
  }
  for (const Transfer& transfer : program.transfers) {
    for (const Message& message : transfer.messages) add({"send", {}, 1, transfer.bytes(message)});
  }
  return totals;
}

std::vector<plan::CollectiveUse> collective_uses(const PipelinePlan& plan,
                                                 const PipelineProgram& program,
                                                 const cost::DeviceModel& device) {
  std::vector<plan::CollectiveUse> uses;
  const auto add = [&](const plan::CollectiveUse& more) {
    plan::CollectiveUse& use = use_of(uses, more.kind, more.mesh_axes);
    use.times += plan.microbatches * more.times;
    use.bytes += plan.microbatches * more.bytes;
    use.seconds += plan.microbatches * more.seconds;
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const cost::CostModel cost(device, stage.plan.mesh);
    for (const auto& use : collective_uses(program.stages[s], &cost)) add(use);
    if (!stage.stage.sent.empty())
      add({.kind = "send", .mesh_axes = {}, .seconds = stage.transfer_seconds});
  }
  for (const Transfer& transfer : program.transfers) {
    std::int64_t bytes = 0;
    for (const Message& message : transfer.messages) bytes += transfer.bytes(message);
    add({.kind = "send", .mesh_axes = {}, .times = 1, .bytes = bytes});
  }
  return uses;
}

std::vector<bundle::TransferInfo> transfer_infos(const PipelineProgram& program) {
  std::vector<bundle::TransferInfo> infos;
  for (const Transfer& transfer : program.transfers) {
    bundle::TransferInfo& info = infos.emplace_back();
    info.value = transfer.value;
    info.from_stage = transfer.from_stage;
    for (const Message& message : transfer.messages)
      info.messages.push_back({message.from, message.to, transfer.bytes(message)});
  }
  return infos;
}

std::int64_t predict_peak_bytes(const StageGraph& stage, const plan::Plan& plan,
                                const cost::DeviceModel& device, int microbatches,
                                const RunBytes& run_bytes) {
  const Program program = lower(stage.graph, plan, cost::CostModel(device, plan.mesh));
  std::vector<Exchange> received;
  std::vector<Exchange> sent;
  for (const ValueId value : stage.received) received.push_back({value});
  for (const ValueId value : stage.sent) sent.push_back({value});
  std::int64_t peak = 0;
  std::vector<Graph> shards;
  for (const std::vector<int>& ranks : alike_ranks(program)) {
    Graph shard = rank_graph(program, ranks.front());
    add_transfers(stage, plan, ranks.front(), received, sent, shard);
    if (std::ranges::any_of(shards, [&](const Graph& known) { return are_alike(known, shard); }))
      continue;
    peak = std::max(peak, predict_memory(shard, microbatches, run_bytes).peak_bytes);
    shards.push_back(std::move(shard));
  }
  return peak;
}

}  // namespace autopar::program
