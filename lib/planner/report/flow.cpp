#include "planner/report/flow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "plan/layer_blocks.h"
#include "plan/plan_json.h"
#include "plan/split_kind.h"
#include "program/lowering.h"

namespace autopar::planner {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using nlohmann::json;
using plan::LayerBlock;
using program::Instruction;
using program::Program;

/// Texts, each once.
class Texts {
 public:
  std::size_t id(const std::string& text) {
    const auto [entry, is_new] = ids_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  const json& list() const { return texts_; }

 private:
  std::map<std::string, std::size_t> ids_;
  json texts_ = json::array();
};

/// One slice or collective.
struct Move {
  NodeId from = graph::no_node;
  NodeId to = graph::no_node;
  plan::CollectiveUse use{};  ///< once
  std::string value;
  std::string before;
  std::string after;
};

/// By instruction, the plan's operator that it belongs to: a part of a decomposed operator, and
/// what moves between such parts, belongs to that operator; a move of a value, to what reads it.
std::vector<NodeId> owners_of(const Program& program, const std::vector<NodeId>& makers) {
  std::vector<NodeId> owners(program.instructions.size(), graph::no_node);
  NodeId next = graph::no_node;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.node != graph::no_node) {
      for (const ValueId output : program.graph.node(instruction.node).outputs) {
        const bool is_planned =
            output != graph::no_value && static_cast<std::size_t>(output) < makers.size();
        if (is_planned && makers[static_cast<std::size_t>(output)] != graph::no_node)
          next = makers[static_cast<std::size_t>(output)];
      }
    }
    owners[i] = next;
  }
  return owners;
}

class StageFlow {
 public:
  StageFlow(const plan::StagePlan& stage, const Program& program, const cost::DeviceModel& device)
      : graph_(stage.stage.graph),
        plan_(stage.plan),
        program_(program),
        cost_(device, stage.plan.mesh),
        makers_(graph::producers(graph_)),
        blocks_(plan::layer_blocks(graph_, plan_)),
        moves_(find_moves()) {}

  const Graph& graph() const { return graph_; }
  const plan::Plan& plan() const { return plan_; }
  const std::vector<Move>& moves() const { return moves_; }

  double seconds_of(NodeId id) const {
    const graph::Node& node = graph_.node(id);
    return cost_.operator_seconds(graph_, node, sharding::rule_or_replicated(graph_, node),
                                  plan_.operators[static_cast<std::size_t>(id)]);
  }

  /// `first`: the place of the stage's first operator among all stages'.
  json blocks_json(std::size_t first) const {
    json list = json::array();
    for (const LayerBlock& block : blocks_) {
      std::map<plan::SplitKind, double> by_kind;
      double seconds = 0;
      for (NodeId id = block.first; id < block.end(); ++id) {
        by_kind[plan::split_kind(plan_.operators[static_cast<std::size_t>(id)])] += seconds_of(id);
        seconds += seconds_of(id);
      }
      json kinds = json::object();
      for (const auto& [kind, of_kind] : by_kind) kinds[std::string(name_of(kind))] = of_kind;
      list.push_back({{"name", block.name},
                      {"first", first + static_cast<std::size_t>(block.first)},
                      {"operators", block.operators},
                      {"repeats", block.repeats},
                      {"seconds", seconds},
                      {"kinds", std::move(kinds)},
                      {"collectives", uses_json(within(block))}});
    }
    return list;
  }

  json edges_json() const {
    std::map<std::pair<std::size_t, std::size_t>, std::set<ValueId>> values;
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id)
      for (const ValueId input : graph_.nodes[id].inputs) {
        const NodeId maker = input == graph::no_value ? graph::no_node : maker_of(input);
        if (maker == graph::no_node) continue;
        const std::size_t from = block_of(maker);
        const std::size_t to = block_of(static_cast<NodeId>(id));
        if (from != to) values[{from, to}].insert(input);
      }
    json list = json::array();
    for (const auto& [ends, carried] : values) {
      std::int64_t bytes = 0;
      for (const ValueId value : carried)
        bytes += graph::bytes_of(graph_.value(value).type,
                                 graph::num_elements(graph_.value(value).shape));
      list.push_back({{"from", ends.first},
                      {"to", ends.second},
                      {"values", carried.size()},
                      {"bytes", bytes},
                      {"collectives", uses_json(between(ends.first, ends.second))}});
    }
    return list;
  }

 private:
  NodeId maker_of(ValueId value) const { return makers_[static_cast<std::size_t>(value)]; }

  std::size_t block_of(NodeId id) const {
    const auto behind = std::ranges::upper_bound(blocks_, id, {}, &LayerBlock::first);
    return static_cast<std::size_t>(behind - blocks_.begin()) - 1;
  }

  Move move_of(const Instruction& instruction, NodeId owner) const {
    const auto& step = instruction.step;
    const graph::Value& value = program_.value_of(instruction);
    const ValueId id = program_.versions[static_cast<std::size_t>(instruction.inputs[0])].value;
    const bool is_inner = static_cast<std::size_t>(id) >= makers_.size();
    const bool is_reduction =
        program_.versions[static_cast<std::size_t>(instruction.outputs[0])].is_base;
    Move move{
        .value = value.name, .before = to_string(step.before), .after = to_string(step.after)};
    move.from = is_inner ? owner : maker_of(id);
    move.to = is_inner || !is_reduction ? owner : move.from;
    move.use = {.kind = std::string(name_of(step.kind)), .mesh_axes = step.mesh_axes, .times = 1};
    move.use.seconds = cost_.step_seconds(step, value);
    for (int rank = 0; rank < program_.mesh.num_devices(); ++rank)
      move.use.bytes += payload_bytes(step, value.shape, value.type, program_.mesh, rank);
    return move;
  }

  std::vector<Move> find_moves() const {
    const std::vector<NodeId> owners = owners_of(program_, makers_);
    std::vector<Move> moves;
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.node == graph::no_node) moves.push_back(move_of(instruction, owners[i]));
    }
    return moves;
  }

  template <typename IsMeant>
  std::vector<plan::CollectiveUse> sum_of(const IsMeant& is_meant) const {
    std::vector<plan::CollectiveUse> uses;
    for (const Move& move : moves_) {
      if (!is_meant(move)) continue;
      plan::CollectiveUse& use = program::use_of(uses, move.use.kind, move.use.mesh_axes);
      use.times += move.use.times;
      use.bytes += move.use.bytes;
      use.seconds += move.use.seconds;
    }
    return uses;
  }

  /// Collectives that move the block's own values, or what is stored.
  std::vector<plan::CollectiveUse> within(const LayerBlock& block) const {
    const auto is_in = [&](NodeId id) { return id >= block.first && id < block.end(); };
    return sum_of([&](const Move& move) {
      return is_in(move.to) && (move.from == graph::no_node || is_in(move.from));
    });
  }

  std::vector<plan::CollectiveUse> between(std::size_t from, std::size_t to) const {
    return sum_of([&](const Move& move) {
      return move.from != graph::no_node && move.to != graph::no_node &&
             block_of(move.from) == from && block_of(move.to) == to;
    });
  }

  static json uses_json(const std::vector<plan::CollectiveUse>& uses) {
    return JsonWriter::write(uses);
  }

  const Graph& graph_;
  const plan::Plan& plan_;
  const Program& program_;
  cost::CostModel cost_;
  std::vector<NodeId> makers_;  ///< by the plan's values
  std::vector<LayerBlock> blocks_;
  std::vector<Move> moves_;
};

/// The operators of all stages, a list a field.
class Operators {
 public:
  void append(const StageFlow& flow, std::size_t stage, int microbatches) {
    const Graph& graph = flow.graph();
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      const graph::Node& node = graph.nodes[id];
      const auto& strategy = flow.plan().operators[id];
      names_.push_back(node.name);
      op_types_.push_back(types_.id(qualified_op_type(node)));
      strategies_.push_back(strategy_id(strategy));
      shapes_.push_back(shape_texts_.id(shape_of(graph, node)));
      seconds_.push_back(flow.seconds_of(static_cast<NodeId>(id)) * microbatches);
      stages_.push_back(stage);
    }
  }

  std::size_t count() const { return names_.size(); }

  void tell(json& flow) const {
    flow["op_types"] = types_.list();
    flow["shapes"] = shape_texts_.list();
    flow["strategies"] = strategy_list_;
    flow["operators"] = {{"name", names_},   {"op_type", op_types_}, {"strategy", strategies_},
                         {"shape", shapes_}, {"seconds", seconds_},  {"stage", stages_}};
  }

 private:
  /// The shape of the first output that is not left out.
  static std::string shape_of(const Graph& graph, const graph::Node& node) {
    for (const ValueId output : node.outputs)
      if (output != graph::no_value)
        return fmt::format("{}", fmt::join(graph.value(output).shape, "x"));
    return "";
  }

  std::size_t strategy_id(const sharding::OpShardSpec& strategy) {
    const std::size_t id = strategy_texts_.id(
        fmt::format("{}\n{}", to_string(strategy), name_of(plan::split_kind(strategy))));
    if (id == strategy_list_.size())
      strategy_list_.push_back(
          {{"text", to_string(strategy)}, {"kind", name_of(plan::split_kind(strategy))}});
    return id;
  }

  Texts types_;
  Texts shape_texts_;
  Texts strategy_texts_;
  json strategy_list_ = json::array();
  json names_ = json::array();
  json op_types_ = json::array();
  json strategies_ = json::array();
  json shapes_ = json::array();
  json seconds_ = json::array();
  json stages_ = json::array();
};

json move_json(const Move& move, std::size_t first) {
  const auto place = [&](NodeId id) {
    return id == graph::no_node ? -1 : static_cast<std::int64_t>(first) + id;
  };
  json text = JsonWriter::write(move.use);
  text.erase("times");
  text.update({{"value", move.value},
               {"before", move.before},
               {"after", move.after},
               {"from", place(move.from)},
               {"to", place(move.to)}});
  return text;
}

}  // namespace

json flow_json(const plan::PipelinePlan& plan, const program::PipelineProgram& program,
               const cost::DeviceModel& device) {
  Operators operators;
  json moves = json::array();
  json stages = json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const plan::StagePlan& stage = plan.stages[s];
    const StageFlow flow(stage, program.stages[s], device);
    const std::size_t first = operators.count();
    operators.append(flow, s, plan.microbatches);
    for (const Move& move : flow.moves()) moves.push_back(move_json(move, first));
    stages.push_back({{"mesh", to_string(stage.plan.mesh)},
                      {"first_rank", stage.first_rank},
                      {"ranks", stage.num_devices()},
                      {"first_operator", first},
                      {"operators", stage.stage.graph.nodes.size()},
                      {"blocks", flow.blocks_json(first)},
                      {"edges", flow.edges_json()}});
  }
  json result{{"moves", std::move(moves)}, {"stages", std::move(stages)}};
  operators.tell(result);
  return result;
}

}  // namespace autopar::planner
