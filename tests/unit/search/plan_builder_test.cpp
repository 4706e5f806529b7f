#include "search/plan_builder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <set>

#include "assignment/local_search/forest_descent.h"
#include "base/error.h"
#include "plan_pricing.h"
#include "search/operator_strategies.h"
#include "search/search_plan.h"

using namespace autopar;

namespace {

constexpr std::int64_t smallest_counted_share = 64;  // as the builder has it

/// Four products of x, added up.
graph::Graph four_readers() {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {256, 64}, std::nullopt});
  };
  const auto x = value("x");
  std::vector<graph::ValueId> products;
  for (const char* name : {"1", "2", "3", "4"}) {
    const auto weight = graph.add_constant(
        std::string("w") + name, graph::Tensor::zeros(graph::DataType::float32, {64, 64}));
    products.push_back(value(std::string("p") + name));
    graph.nodes.push_back(
        {std::string("product") + name, "MatMul", "", {x, weight}, {products.back()}, {}});
  }
  graph::ValueId sum = products[0];
  for (std::size_t k = 1; k < products.size(); ++k) {
    const auto more = value("sum" + std::to_string(k));
    graph.nodes.push_back({"add" + std::to_string(k), "Add", "", {sum, products[k]}, {more}, {}});
    sum = more;
  }
  graph.inputs = {x};
  graph.outputs = {sum};
  return graph;
}

/// What a plan of `four_readers` has alive over time, summed up from the plan.
std::vector<std::int64_t> alive_bytes(const graph::Graph& graph, const cost::CostModel& cost,
                                      const search::SolvedPlan& solved,
                                      std::int64_t least_counted) {
  const plan::Plan& plan = solved.plan;
  const int horizon = static_cast<int>(graph.nodes.size()) + 1;
  std::vector<std::int64_t> usage(static_cast<std::size_t>(horizon), 0);
  const auto add = [&](int first, int end, std::int64_t bytes) {
    for (int t = first; t < end; ++t) usage[static_cast<std::size_t>(t)] += bytes;
  };
  add(0, horizon, weight_bytes_of(graph, plan));
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto id = static_cast<graph::ValueId>(i);
    const graph::Value& value = graph.value(id);
    std::set<sharding::TensorShardSpec> read;
    std::vector<std::pair<int, std::set<sharding::TensorShardSpec>>> readers;  // may read
    int made_at = 0;
    for (std::size_t op = 0; op < graph.nodes.size(); ++op) {
      const auto& inputs = graph.nodes[op].inputs;
      if (graph.nodes[op].outputs[0] == id) made_at = static_cast<int>(op);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k] != id) continue;
        auto& may_read =
            readers.emplace_back(static_cast<int>(op), std::set<sharding::TensorShardSpec>{})
                .second;
        for (const auto& choice : solved.built.operators[op]->choices) {
          may_read.insert(choice.inputs[k]);
        }
        read.insert(plan.operators[op].inputs[k]);
      }
    }
    const auto bytes = [&](const auto& spec) { return search::arena_bytes(value, spec, cost); };
    const sharding::TensorShardSpec made = plan.spec_of(graph, id);
    const int end = readers.empty() ? horizon : readers.back().first + 2;
    if (!value.constant) add(made_at + 1, end, bytes(made));
    if (readers.size() == 1 && graph::num_elements(value.shape) * 4 <= least_counted) continue;
    read.erase(made);
    for (const auto& spec : read) {
      int first = horizon;
      int last = 0;
      for (const auto& [reader, may_read] : readers) {
        if (!may_read.contains(spec)) continue;
        first = std::min(first, reader);
        last = std::max(last, reader);
      }
      add(first + 1, last + 2, bytes(spec));
    }
  }
  for (std::size_t op = 0; op < graph.nodes.size(); ++op) {
    const graph::Value& output = graph.value(graph.nodes[op].outputs[0]);
    const auto reduced = [&](const sharding::OpShardSpec& choice) -> std::int64_t {
      if (choice.reductions[0] == sharding::ReduceFunction::none) return 0;
      return search::arena_bytes(output, choice.computed[0], cost);
    };
    const auto& choices = solved.built.operators[op]->choices;
    if (reduced(std::ranges::max(choices, {}, reduced)) <= least_counted) continue;
    const int at = static_cast<int>(op) + 1;
    add(at, at + 1, reduced(plan.operators[op]));
  }
  return usage;
}

}  // namespace

TEST_CASE("a problem counts what a plan has alive, each copy of a tensor once and none as made") {
  const graph::Graph graph = four_readers();
  int with_copies = 0;
  int exact_with_copies = 0;
  for (const char* mesh : {"2", "4", "2x2"}) {
    const cost::CostModel cost = model_of(mesh);
    // On 2x2 there are so many sets that each version counts by itself.
    const bool counts_sets = mesh != std::string("2x2");
    for (std::int64_t limit = 600'000; limit > 60'000; limit -= 30'000) {
      for (const char* spec : {"RR", "S0R", "RS0"}) {
        search::SearchOptions options;
        options.memory = {search::MemoryPolicy::Kind::bytes, limit};
        const auto specs = [](const auto*... texts) {
          return std::vector{sharding::TensorShardSpec::parse(texts)...};
        };
        options.pins = {{"x", {}, specs(spec), {}}};
        if (counts_sets) options.pins.push_back({"product1", specs("RR", "RS0"), {}, {}});
        options.pins.push_back({"product2", specs("S0R", "RR"), {}, {}});
        CAPTURE(mesh, limit, spec);
        try {
          const search::SolvedPlan solved = search_plan(graph, cost, options);
          const auto expected = alive_bytes(graph, cost, solved, limit / smallest_counted_share);
          const auto usage = usage_over_time(solved.built.problem, solved.choice);
          std::set<sharding::TensorShardSpec> versions{solved.plan.stored.at(graph.inputs[0])};
          for (std::size_t op = 0; op < 4; ++op) {
            versions.insert(solved.plan.operators[op].inputs[0]);
          }
          if (counts_sets) {
            CHECK(usage == expected);
            with_copies += versions.size() > 1 ? 1 : 0;
          } else {  // copies that nobody reads are free where there is room
            CHECK(std::ranges::equal(usage, expected, std::greater_equal{}));
            exact_with_copies += versions.size() > 1 && usage == expected ? 1 : 0;
          }
        } catch (const search::NothingFits&) {
        }
      }
    }
  }
  CHECK(with_copies > 40);
  CHECK(exact_with_copies > 20);
}

TEST_CASE(
    "specs that one of four readers alone may read are priced beside the sets of the others") {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {8, 8, 8, 8, 8}, std::nullopt});
  };
  const auto x = value("x");
  const auto y = value("y");
  const auto number = [&](const std::string& name, std::int64_t n) {
    return graph.add_constant(name, graph::Tensor::of_int64({1}, std::vector{n}));
  };
  const auto begin = number("begin", 0);
  const auto middle = number("middle", 4);
  const auto end = number("end", 8);
  const auto axis = number("axis", 4);
  const auto half = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {8, 8, 8, 8, 4}, std::nullopt});
  };
  graph.inputs = {x};
  graph.outputs = {value("relu"), half("left"), half("right"), half("left too")};
  const auto& outputs = graph.outputs;
  graph.nodes.push_back({"tanh", "Tanh", "", {x}, {y}, {}});
  graph.nodes.push_back({"relu", "Relu", "", {y}, {outputs[0]}, {}});
  graph.nodes.push_back({"left", "Slice", "", {y, begin, middle, axis}, {outputs[1]}, {}});
  graph.nodes.push_back({"right", "Slice", "", {y, middle, end, axis}, {outputs[2]}, {}});
  graph.nodes.push_back({"left too", "Slice", "", {y, begin, middle, axis}, {outputs[3]}, {}});
  const cost::CostModel cost = model_of("2x2");
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::unlimited();
  const search::PlanProblem built = build_plan_problem(graph, cost, options);
  // Relu reads 41 specs of y, the others only the 29 without a share of the last dimension: there
  // are 4,089 sets of one to three of these, and 41 specs that Tanh makes and all copy from.
  const auto has_sets = [](const auto& node) { return node.costs.size() == 4089 + 41; };
  REQUIRE(std::ranges::count_if(built.problem.nodes, has_sets) == 1);
  std::mt19937 random(1);
  int alone = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::vector<int> known(built.problem.nodes.size(), assignment::open_node);
    for (std::size_t id = 0; id < graph.nodes.size(); ++id)
      known[id] = static_cast<int>(random() % built.operators[id]->choices.size());
    const auto choice = assignment::complete(built.problem, std::move(known));
    REQUIRE(choice);
    const plan::Plan plan = decode(built, *choice, cost);
    const double seconds = search::in_seconds(assignment::cost_of(built.problem, *choice));
    CHECK(seconds == Approx(price_of(graph, cost, plan)).epsilon(1e-6));
    alone += plan.operators[1].inputs[0].dims.back().empty() ? 0 : 1;
  }
  CHECK(alone > 20);
}

TEST_CASE("what a state follows is alive until the step ends, long after its last reader") {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {256, 64}, std::nullopt});
  };
  const auto past = value("past");
  graph::ValueId last = value("present");
  graph.nodes.push_back({"step", "Relu", "", {past}, {last}, {}});
  graph.inputs = {past};
  graph.outputs = {last};
  for (const char* name : {"a", "b", "c"}) {
    const auto next = value(name);
    graph.nodes.push_back({std::string("op_") + name, "Relu", "", {last}, {next}, {}});
    last = next;
  }
  graph.outputs.push_back(last);
  const cost::CostModel cost = model_of("1");
  search::SearchOptions options;
  options.memory = {search::MemoryPolicy::Kind::bytes, std::int64_t{1} << 30};
  const auto alive = [&] {
    const search::SolvedPlan solved = search_plan(graph, cost, options);
    return usage_over_time(solved.built.problem, solved.choice);
  };
  const auto without = alive();
  graph.states = {{0, 0}};
  const auto with = alive();
  const std::int64_t bytes =
      search::arena_bytes(graph.value(past), sharding::TensorShardSpec::replicated(2), cost);
  REQUIRE(with.size() == 5);
  for (const std::size_t time : {0U, 1U}) CHECK(with[time] == without[time]);
  for (const std::size_t time : {2U, 3U, 4U}) CHECK(with[time] == without[time] + bytes);
}

TEST_CASE("decomposed operators have prices of their own") {
  graph::Graph graph;
  graph.opsets[""] = 22;
  const auto value = [&](const char* name) {
    return graph.add_value({name, graph::DataType::float32, {1000, 1000}, std::nullopt});
  };
  graph.inputs = {value("x")};
  graph.outputs = {value("y"), value("z")};
  for (const std::int64_t p : {1, 2}) {
    graph.nodes.push_back({"norm" + std::to_string(p),
                           "LpNormalization",
                           "",
                           graph.inputs,
                           {graph.outputs[static_cast<std::size_t>(p) - 1]},
                           {{"p", p}}});
  }
  const cost::CostModel cost(cost::load_device_model("cpu"), sharding::DeviceMesh({2}));
  const std::vector<search::Pin> no_pins;
  const search::Pins pins(no_pins, graph);
  search::StrategyTable table(graph, cost, pins);
  CHECK(table.of(0)->choices == table.of(1)->choices);
  CHECK(table.of(0)->costs.back() < table.of(1)->costs.back());
}
