#include "search/missing_collectives.h"

#include <catch2/catch.hpp>
#include <limits>

#include "block.h"
#include "cost/collective_set.h"
#include "plan_pricing.h"
#include "program/lowering.h"
#include "sharding/connection_seconds.h"

using namespace autopar;
using Catch::Matchers::Contains;
using sharding::StepKind;

namespace {

constexpr double rounding = 1e-10;  // costs are whole picoseconds in the search

using Set = std::shared_ptr<const cost::CollectiveSet>;

cost::CostModel with_collectives(const Set& set, const std::string& mesh) {
  cost::DeviceModel device = cost::load_device_model("h200");
  device.collectives = set;
  return {device, sharding::DeviceMesh::parse(mesh)};
}

/// One that gathers and nothing else.
Set gathers() {
  cost::CollectiveSet set = *cost::tensorrt_collectives();
  std::erase_if(set.types, [](const auto& kind) { return kind.first != StepKind::all_gather; });
  return std::make_shared<const cost::CollectiveSet>(set);
}

/// y = softmax(x w).
graph::Graph scores(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto x = value("x", {rows, inner});
  const auto w =
      graph.add_constant("w", graph::Tensor::zeros(graph::DataType::float32, {inner, columns}));
  const auto s = value("s", {rows, columns});
  const auto y = value("y", {rows, columns});
  graph.nodes = {{"product", "MatMul", "", {x, w}, {s}, {}},
                 {"softmax", "Softmax", "", {s}, {y}, {{"axis", std::int64_t{1}}}}};
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

/// A plan's seconds, infinite where it takes a collective that there is none of.
class Prices {
 public:
  Prices(const graph::Graph& graph, const cost::CostModel& cost) : graph_(graph), cost_(cost) {}

  double of(const plan::Plan& plan) {
    double seconds = 0;
    std::set<std::pair<graph::ValueId, sharding::TensorShardSpec>> made;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const graph::Node& node = graph_.nodes[n];
      seconds += of_operator(static_cast<graph::NodeId>(n), plan.operators[n]);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (made.emplace(node.inputs[i], plan.operators[n].inputs[i]).second)
          seconds += way(node.inputs[i], plan.spec_of(graph_, node.inputs[i]),
                         plan.operators[n].inputs[i]);
    }
    return seconds;
  }

 private:
  double of_operator(graph::NodeId id, const sharding::OpShardSpec& strategy) {
    const auto [known, is_new] = operators_.try_emplace({id, to_string(strategy)}, 0);
    if (is_new) {
      const graph::Node& node = graph_.node(id);
      const auto rule = *sharding::sharding_rule(graph_, node);
      known->second = cost_.operator_seconds(graph_, node, rule, strategy) +
                      cost_.reduction_seconds(graph_, node, rule, strategy);
    }
    return known->second;
  }

  double way(graph::ValueId id, const sharding::TensorShardSpec& from,
             const sharding::TensorShardSpec& to) {
    const graph::Value& value = graph_.value(id);
    return ways_.try_emplace(id, value.shape, value.type, cost_.mesh(), cost_.step_price())
        .first->second.of(from, to);
  }

  const graph::Graph& graph_;
  const cost::CostModel& cost_;
  std::map<std::pair<graph::NodeId, std::string>, double> operators_;
  std::map<graph::ValueId, sharding::ConnectionSeconds> ways_;
};

/// On several axes a sum may be reduced axis by axis, which no strategy does: it is left to the
/// reader alone where that is linear in it.
bool leaves_sums_to_readers(const plan::Plan& plan) {
  return plan.mesh.num_axes() > 1 &&
         std::ranges::any_of(plan.operators, [](const sharding::OpShardSpec& strategy) {
           return std::ranges::any_of(strategy.outputs, &sharding::TensorShardSpec::is_partial);
         });
}

double least_price(const graph::Graph& graph, const cost::CostModel& cost, std::int64_t limit) {
  Prices prices(graph, cost);
  double least = std::numeric_limits<double>::infinity();
  for_each_plan(
      graph, cost.mesh(), [&](const graph::Value& value) { return places_of(value, cost.mesh()); },
      [&](const plan::Plan& plan) {
        if (weight_bytes_of(graph, plan) <= limit && !leaves_sums_to_readers(plan))
          least = std::min(least, prices.of(plan));
      });
  return least;
}

/// Whether all that the plan takes is there.
void check_collectives(const graph::Graph& graph, const cost::CostModel& cost,
                       const plan::Plan& plan) {
  const program::Program program = program::lower(graph, plan, cost);
  for (const program::Instruction& step : program.instructions) {
    if (!step.is_collective()) continue;
    const graph::Value& value = program.value_of(step);
    CHECK(cost.device().collectives->has(step.step, value.shape, value.type, plan.mesh));
  }
}

void compare(const graph::Graph& graph, const cost::CostModel& cost) {
  constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
  std::int64_t weights = 0;
  for (const graph::Value& value : graph.values)
    if (value.constant) weights += value.constant->size_bytes();
  for (const bool is_fair : {false, true}) {
    const std::int64_t limit = is_fair ? weights * 5 / 4 / cost.mesh().num_devices() : no_limit;
    const double least = least_price(graph, cost, limit);
    CAPTURE(is_fair, least);
    if (std::isinf(least)) {
      CHECK_THROWS_AS(search_plan(graph, cost, within("fair")), search::NothingFits);
      continue;
    }
    for (const bool presolve : {true, false}) {
      search::SearchOptions options = within(is_fair ? "fair" : "device");
      options.presolve = presolve;
      const search::SolvedPlan found = search_plan(graph, cost, options);
      CHECK(found.plan.predicted.cost_seconds == Approx(least).margin(rounding));
      CHECK(found.report.proven_optimal);
      check_collectives(graph, cost, found.plan);
    }
  }
}

}  // namespace

TEST_CASE("the plan is the best of those without other collectives, as brute force finds") {
  const std::vector<Set> sets{cost::onnx_runtime_collectives(), cost::tensorrt_collectives(),
                              gathers()};
  for (const Set& set : sets) {
    for (const auto& [rows, width, hidden] :
         std::vector<std::array<std::int64_t, 3>>{{6, 48, 96}, {512, 32, 33}, {7, 33, 64}}) {
      for (const char* mesh : {"2", "3"}) {
        CAPTURE(set->name, set->types.size(), rows, width, hidden, mesh);
        compare(block(rows, width, hidden), with_collectives(set, mesh));
      }
    }
    for (const auto& [rows, inner, columns] :
         std::vector<std::array<std::int64_t, 3>>{{8, 512, 64}, {4096, 64, 66}, {3, 66, 512}}) {
      CAPTURE(set->name, set->types.size(), rows, inner, columns);
      compare(scores(rows, inner, columns), with_collectives(set, "2x2"));
    }
  }
}

TEST_CASE("quick searches keep to the collectives, too") {
  for (const Set& set : {cost::onnx_runtime_collectives(), cost::tensorrt_collectives()}) {
    for (const auto method : {search::SearchMethod::propagation, search::SearchMethod::recursive}) {
      for (const char* mesh : {"4", "2x2"}) {
        const graph::Graph graph = block(64, 64, 128);
        const cost::CostModel cost = with_collectives(set, mesh);
        search::SearchOptions options = within("fair");
        options.method = method;
        CAPTURE(set->name, static_cast<int>(method), mesh);
        check_collectives(graph, cost, search_plan(graph, cost, options).plan);
      }
    }
  }
}

TEST_CASE("where nothing fits, the weight is told that the collectives do not let be split") {
  // No dimension has equal shares on three ranks, and a sum of 64 needs one that gathers cannot do.
  const graph::Graph graph = block(8, 64, 128);
  CHECK_THROWS_WITH(
      search_plan(graph, with_collectives(gathers(), "3"), within("fair")),
      Contains("with the collectives of --shards tensorrt operator 'up' needs weight 'w1' (32768 "
               "bytes) whole on every rank: give fewer ranks or another flavour"));
  CHECK_NOTHROW(search_plan(graph, model_of("3"), within("fair")));
}

TEST_CASE("where pins forbid all, the tensor is told that cannot come to its reader") {
  const graph::Graph graph = scores(8, 64, 65);
  search::SearchOptions options = within("device");
  options.pins.push_back({"product",
                          {},
                          std::vector{sharding::TensorShardSpec::parse("RS0")},
                          std::vector{sharding::ReduceFunction::none}});
  options.pins.push_back({"softmax", {}, std::vector{sharding::TensorShardSpec::parse("RR")}, {}});
  CHECK_THROWS_WITH(
      search_plan(graph, with_collectives(cost::onnx_runtime_collectives(), "2"), options),
      Contains("tensor 's' cannot come to operator 'softmax'"));
  options.pins.front().outputs = std::vector{sharding::TensorShardSpec::parse("S0R")};
  options.pins.front().reductions = std::vector{sharding::ReduceFunction::reduce_scatter};
  CHECK_THROWS_WITH(
      search_plan(graph, with_collectives(cost::onnx_runtime_collectives(), "2"), options),
      Contains("operator 'product': all that --strategy leaves of it takes collectives that "
               "--shards onnxruntime does not have"));
}
