#include "program/pipeline_program.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/unique_names.h"
#include "cost/cost_model.h"
#include "graph/message_boxes.h"
#include "program/memory_prediction.h"
#include "program/rank_graph.h"

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
    Transfer& transfer = transfers.emplace_back(Transfer{value.name, from_stage, value.type, {}});
    transfer.messages = sharding::cross_mesh_messages(
        from.plan.spec_of(graph, from.stage.sent[i]), from.plan.mesh,
        to.plan.spec_of(to.stage.graph, received), to.plan.mesh, value.shape);
    for (Message& message : transfer.messages) {
      message.from += from.first_rank;
      message.to += to.first_rank;
    }
  }
}

/// The ranks that one rank exchanges a value with, and the box of the whole value for each.
struct Peers {
  std::vector<std::int64_t> ranks;
  std::vector<const std::vector<Range>*> boxes;
};

/// `self` is the end of a message that the rank is, `other` its peer's.
Peers peers_of(int rank, const Transfer& transfer, int Message::*self, int Message::*other) {
  Peers peers;
  for (const Message& message : transfer.messages) {
    if (message.*self != rank) continue;
    peers.ranks.push_back(message.*other);
    peers.boxes.push_back(&message.box);
  }
  return peers;
}

/// Adds Recv and Send nodes to the graph of a stage's rank.
class TransferNodes {
 public:
  TransferNodes(const StageGraph& stage, const plan::Plan& plan, int rank_in_stage, Graph& shard)
      : stage_(stage), plan_(plan), rank_(rank_in_stage), shard_(shard) {
    names_.insert_names(shard_.nodes);
  }

  void receive(ValueId received, const Peers& senders) {
    const ValueId made = counterpart(stage_.graph.inputs, shard_.inputs, received);
    Node node = transfer_node("Recv", received, senders);
    node.outputs = {made};
    node.attributes["shape"] = shard_.value(made).shape;
    node.attributes["dtype"] = static_cast<std::int64_t>(shard_.value(made).type);
    receives_.push_back(std::move(node));
  }

  void send(ValueId sent, const Peers& receivers) {
    Node node = transfer_node("Send", sent, receivers);
    node.inputs = {counterpart(stage_.graph.outputs, shard_.outputs, sent)};
    sends_.push_back(std::move(node));
  }

  void insert() && {
    auto& nodes = shard_.nodes;
    std::ranges::move(receives_, std::inserter(nodes, nodes.begin()));
    std::ranges::move(sends_, std::back_inserter(nodes));
    shard_.inputs.resize(stage_.model_inputs.size());
    shard_.outputs.resize(stage_.model_outputs.size());
  }

 private:
  /// The shard's inputs and outputs stand in the order of the stage's.
  static ValueId counterpart(const std::vector<ValueId>& whole, const std::vector<ValueId>& local,
                             ValueId id) {
    return local[std::ranges::find(whole, id) - whole.begin()];
  }

  /// Boxes are told within what the rank has of the value.
  Node transfer_node(const char* op_type, ValueId id, const Peers& peers) {
    const graph::Value& value = stage_.graph.value(id);
    const std::vector<Range> part =
        local_ranges(plan_.spec_of(stage_.graph, id), value.shape, plan_.mesh, rank_);
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
    for (const std::vector<Range>* box : peers.boxes) {
      for (std::size_t d = 0; d < box->size(); ++d) {
        starts.push_back((*box)[d].begin - part[d].begin);
        ends.push_back((*box)[d].end - part[d].begin);
      }
    }
    return {names_.take(value.name + "/" + op_type),
            op_type,
            graph::collective_domain,
            {},
            {},
            {{"peers", peers.ranks}, {"starts", starts}, {"ends", ends}}};
  }

  const StageGraph& stage_;
  const plan::Plan& plan_;
  int rank_;
  Graph& shard_;
  std::vector<Node> receives_;
  std::vector<Node> sends_;
  UniqueNames names_{"#"};
};

sharding::StepPrice price_on(const cost::DeviceModel& device, const sharding::DeviceMesh& mesh) {
  return cost::CostModel(device, mesh).step_price();
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
        lower(stage.stage.graph, stage.plan, price_on(device, stage.plan.mesh)));
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
  TransferNodes nodes(stage.stage, stage.plan, rank_in_stage, shard);
  auto received = stage.stage.received.begin();
  auto sent = stage.stage.sent.begin();
  for (const Transfer& transfer : program.transfers) {
    if (transfer.from_stage + 1 == static_cast<int>(s))
      nodes.receive(*received++, peers_of(rank, transfer, &Message::to, &Message::from));
    if (transfer.from_stage == static_cast<int>(s))
      nodes.send(*sent++, peers_of(rank, transfer, &Message::from, &Message::to));
  }
  std::move(nodes).insert();
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
    for (const auto& use : collective_uses(program.stages[s], price_on(device, stage.plan.mesh)))
      add(use);
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
  const Program program = lower(stage.graph, plan, price_on(device, plan.mesh));
  std::int64_t peak = 0;
  for (const std::vector<int>& ranks : alike_ranks(program)) {
    Graph shard = rank_graph(program, ranks.front());
    TransferNodes nodes(stage, plan, ranks.front(), shard);
    for (const ValueId received : stage.received) nodes.receive(received, {});
    for (const ValueId sent : stage.sent) nodes.send(sent, {});
    std::move(nodes).insert();
    peak = std::max(peak, predict_memory(shard, microbatches, run_bytes).peak_bytes);
  }
  return peak;
}

}  // namespace autopar::program
