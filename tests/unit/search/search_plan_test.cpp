#include "search/search_plan.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "block.h"
#include "plan/plan_json.h"
#include "plan_pricing.h"
#include "program/pipeline_program.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using Catch::Matchers::Contains;

namespace {

constexpr double rounding = 1e-10;  // costs are whole picoseconds in the search

/// y = softmax(a b + c d).
graph::Graph two_products(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto a = value("a", {rows, inner});
  const auto c = value("c", {rows, inner});
  const auto b =
      graph.add_constant("b", graph::Tensor::zeros(graph::DataType::float32, {inner, columns}));
  const auto d =
      graph.add_constant("d", graph::Tensor::zeros(graph::DataType::float32, {inner, columns}));
  const auto left = value("left", {rows, columns});
  const auto right = value("right", {rows, columns});
  const auto sum = value("s", {rows, columns});
  const auto y = value("y", {rows, columns});
  graph.nodes = {{"ab", "MatMul", "", {a, b}, {left}, {}},
                 {"cd", "MatMul", "", {c, d}, {right}, {}},
                 {"sum", "Add", "", {left, right}, {sum}, {}},
                 {"softmax", "Softmax", "", {sum}, {y}, {{"axis", std::int64_t{1}}}}};
  graph.inputs = {a, c};
  graph.outputs = {y};
  return graph;
}

/// A batch of one matrix, multiplied by one weight after another: which dimension is the outermost
/// depends on the order in memory.
graph::Graph chain_of_products(int count) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto batch = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {1, 64, 64}, std::nullopt});
  };
  graph::ValueId x = batch("x");
  graph.inputs = {x};
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const auto w =
        graph.add_constant("w" + number, graph::Tensor::zeros(graph::DataType::float32, {64, 64}));
    const auto y = batch("y" + number);
    graph.nodes.push_back({"product" + number, "MatMul", "", {x, w}, {y}, {}});
    x = y;
  }
  graph.outputs = {x};
  return graph;
}

/// Weights b and d lie split along the sum.
search::SearchOptions with_split_sums(const std::string& spec) {
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::parse("device");
  for (const char* weight : {"b", "d"}) {
    options.pins.push_back({weight, {}, std::vector{sharding::TensorShardSpec::parse(spec)}, {}});
  }
  return options;
}

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// Half of the values lie in memory with their second dimension last.
cost::CostModel with_channels_last(const cost::CostModel& cost, const graph::Graph& graph,
                                   Random& random) {
  cost::DeviceModel device = cost.device();
  cost::ValueNames names;
  for (const graph::Value& value : graph.values)
    if (pick(random, 0, 1) == 0) names.insert(value.name);
  device.channels_last = std::make_shared<const cost::ValueNames>(std::move(names));
  return {device, cost.mesh()};
}

}  // namespace

TEST_CASE("the plan of a random graph costs what it says, and no plan costs less") {
  Random random(3);
  int compared = 0;
  for (int round = 0; round < 120; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 2));
    const cost::CostModel cost = model_of(pick(random, 0, 1) ? "2" : "3");
    CAPTURE(round);
    const search::SolvedPlan plan_found = search_plan(graph, cost, within("device"));
    const auto& plan = plan_found.plan;
    const search::SearchReport& plan_report = plan_found.report;
    REQUIRE(plan_report.proven_optimal);
    REQUIRE(price_of(graph, cost, plan) == Approx(plan.predicted.cost_seconds).margin(rounding));
    double plans = 1;
    for (const graph::Node& node : graph.nodes) plans *= node.inputs.size() > 1 ? 8 : 5;
    if (plans > 400) continue;
    REQUIRE(plan.predicted.cost_seconds ==
            Approx(least_price(graph, cost, no_limit)).margin(rounding));
    ++compared;
  }
  CHECK(compared > 60);
}

TEST_CASE("values that are alike but for their order in memory have prices of their own") {
  Random random(4);
  const graph::Graph graph = chain_of_products(3);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const cost::CostModel cost = with_channels_last(
        {cost::load_device_model("cpu"), sharding::DeviceMesh({2})}, graph, random);
    search::SearchOptions options = within("device");
    for (const char* weight : {"w0", "w1", "w2"})
      options.pins.push_back({weight,
                              {},
                              std::vector{sharding::TensorShardSpec::parse(
                                  any_of<std::string>(random, {"S0R", "RS0"}))},
                              {}});
    const plan::Plan plan = search_plan(graph, cost, options).plan;
    CHECK(price_of(graph, cost, plan) == Approx(plan.predicted.cost_seconds).margin(rounding));
    const program::Program program = program::lower(graph, plan, cost);
    double seconds = 0;
    for (const plan::CollectiveUse& use : program::collective_uses(program, &cost))
      seconds += use.seconds;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      seconds +=
          cost.operator_seconds(graph, graph.nodes[n],
                                *sharding::sharding_rule(graph, graph.nodes[n]), plan.operators[n]);
    CHECK(seconds == Approx(plan.predicted.cost_seconds).margin(rounding));
  }
}

TEST_CASE("a block's plan equals brute force, with and without a fair share of the weights") {
  for (const auto& [rows, width, hidden] : std::vector<std::array<std::int64_t, 3>>{
           {1, 32, 64}, {7, 48, 96}, {512, 32, 33}, {4096, 64, 128}}) {
    const graph::Graph graph = block(rows, width, hidden);
    for (const char* mesh : {"2", "3"}) {
      const cost::CostModel cost = model_of(mesh);
      CAPTURE(rows, width, hidden, mesh);
      const plan::Plan free = search_plan(graph, cost, within("device")).plan;
      CHECK(free.predicted.cost_seconds ==
            Approx(least_price(graph, cost, no_limit)).margin(rounding));
      const search::SolvedPlan fair_found = search_plan(graph, cost, within("fair"));
      const auto& fair = fair_found.plan;
      const search::SearchReport& fair_report = fair_found.report;
      const std::int64_t share = 2 * width * hidden * 4 * 5 / 4 / cost.mesh().num_devices();
      CHECK(weight_bytes_of(graph, fair) <= share);
      CHECK(weight_bytes_of(graph, fair) == fair.predicted.weight_bytes);
      CHECK(fair.predicted.cost_seconds ==
            Approx(least_price(graph, cost, share)).margin(rounding));
      CHECK(fair_report.proven_optimal);
    }
  }
}

TEST_CASE("a limit in bytes holds for what the shards need, and the smallest one named is enough") {
  const graph::Graph graph = block(256, 64, 128);
  const cost::CostModel cost = model_of("4");
  search::SearchOptions options = within("device");
  // Shards that need more than the search knows of, and most where the input is whole.
  options.run_bytes = [&](const graph::Graph& shard, int) {
    const bool whole = shard.value(shard.inputs[0]).shape == graph.value(graph.inputs[0]).shape;
    return graph::constant_bytes(shard) / 2 + (whole ? 300'000 : 180'000);
  };
  const auto peak_of = [&](const plan::Plan& plan) {
    return program::predict_peak_bytes(graph::whole_stage(graph), plan, cost.device(), 1,
                                       options.run_bytes);
  };
  const plan::Plan free = search_plan(graph, cost, options).plan;
  CHECK(free.predicted.peak_bytes == peak_of(free));
  double last_cost = free.predicted.cost_seconds;
  int feasible = 0;
  std::string refusal;
  for (std::int64_t limit = 500'000; limit > 100'000; limit -= 10'000) {
    options.memory = {search::MemoryPolicy::Kind::bytes, limit};
    CAPTURE(limit);
    try {
      const search::SolvedPlan plan_found = search_plan(graph, cost, options);
      const auto& plan = plan_found.plan;
      const search::SearchReport& plan_report = plan_found.report;
      CHECK(plan.predicted.peak_bytes <= limit);
      CHECK(plan.predicted.peak_bytes == peak_of(plan));
      CHECK(plan.predicted.cost_seconds >= last_cost - rounding);
      CHECK(plan_report.lower_bound_seconds <= plan.predicted.cost_seconds + rounding);
      CHECK(refusal.empty());  // once a limit is too small, smaller ones are
      last_cost = plan.predicted.cost_seconds;
      ++feasible;
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
  CHECK(feasible > 5);
  const std::size_t least = refusal.find("smallest known to do is");
  REQUIRE(least != std::string::npos);
  options.memory = {search::MemoryPolicy::Kind::bytes,
                    std::stoll(refusal.substr(refusal.find('(', least) + 1))};
  CHECK(search_plan(graph, cost, options).plan.predicted.peak_bytes <= options.memory.bytes);
}

TEST_CASE("what rank 0 needs beside its shard counts towards the limit") {
  const graph::Graph graph = block(256, 64, 128);
  const cost::CostModel cost = model_of("4");
  search::SearchOptions options = within("device");
  options.run_bytes = program::most_run_bytes;
  const std::int64_t alone = search_plan(graph, cost, options).plan.predicted.peak_bytes;
  options.rank0_bytes = 12'345;
  CHECK(search_plan(graph, cost, options).plan.predicted.peak_bytes == alone + 12'345);
  options.rank0_bytes = cost.device().memory_bytes;
  CHECK_THROWS_AS(search_plan(graph, cost, options), search::NothingFits);
}

TEST_CASE("the bound holds where shards need less than the search sums") {
  const graph::Graph graph = block(256, 64, 128);
  const cost::CostModel cost = model_of("4");
  search::SearchOptions options = within("device");
  const plan::Plan free = search_plan(graph, cost, options).plan;
  int over = 0;
  for (std::int64_t limit = 200'000; limit > 20'000; limit -= 10'000) {
    options.memory = {search::MemoryPolicy::Kind::bytes, limit};
    // All that the search tries fits, but for the first, the cheapest of all.
    bool is_first = true;
    options.run_bytes = [&](const graph::Graph& shard, int) {
      return (std::exchange(is_first, false) ? limit + 1 : 0) - graph::constant_bytes(shard);
    };
    const search::SolvedPlan plan_found = search_plan(graph, cost, options);
    const auto& plan = plan_found.plan;
    const search::SearchReport& plan_report = plan_found.report;
    CAPTURE(limit, plan.predicted.cost_seconds, plan_report.lower_bound_seconds);
    CHECK(plan_report.lower_bound_seconds <= plan.predicted.cost_seconds);
    CHECK(plan_report.lower_bound_seconds >= free.predicted.cost_seconds);
    over += plan_report.lower_bound_seconds < plan.predicted.cost_seconds ? 1 : 0;
  }
  CHECK(over > 5);
}

TEST_CASE(
    "two sums are added before they are reduced where that is cheaper, as brute force finds") {
  const auto split = sharding::TensorShardSpec::parse("S0R");
  for (const char* mesh : {"2", "3"}) {
    CAPTURE(mesh);
    const graph::Graph graph = two_products(48, 4096, 48);
    const cost::CostModel cost = model_of(mesh);
    search::SearchOptions options = with_split_sums("S0R");
    const search::SolvedPlan plan_found = search_plan(graph, cost, options);
    const auto& plan = plan_found.plan;
    const search::SearchReport& plan_report = plan_found.report;
    CHECK(to_string(plan.operators[0]) == "RS0,S0R->RR+P0");
    CHECK(to_string(plan.operators[1]) == "RS0,S0R->RR+P0");
    CHECK(to_string(plan.operators[2]) == "RR+P0,RR+P0->S0R reduce-scatter");
    CHECK(plan_report.proven_optimal);
    CHECK(price_of(graph, cost, plan) == Approx(plan.predicted.cost_seconds).margin(rounding));
    double least = std::numeric_limits<double>::infinity();
    for_each_plan(
        graph, cost.mesh(),
        [&](const graph::Value& value) {
          return value.constant ? std::vector{split} : places_of(value, cost.mesh());
        },
        [&](const plan::Plan& each) { least = std::min(least, price_of(graph, cost, each)); });
    CHECK(plan.predicted.cost_seconds == Approx(least).margin(rounding));
    options.keep_partial = search::KeepPartial::never;
    CHECK(search_plan(graph, cost, options).plan.predicted.cost_seconds >
          plan.predicted.cost_seconds + 1e-6);
  }
}

TEST_CASE("a plan with partial values is pinned by its own JSON") {
  const graph::Graph graph = two_products(48, 4096, 48);
  const cost::CostModel cost = model_of("2x2");
  search::SearchOptions options = with_split_sums("S01R");
  const plan::Plan plan = search_plan(graph, cost, options).plan;
  const std::string json = plan_json(one_stage_plan(graph, plan), {}).dump();
  REQUIRE(json.find("+P") != std::string::npos);
  const TemporaryFolder folder;
  std::ofstream(folder / "plan.json") << json;
  options.pins = search::load_pins(folder / "plan.json");
  CHECK(search_plan(graph, cost, options).plan.operators == plan.operators);
}

TEST_CASE("a pin has values kept where the search would see no use in it") {
  const graph::Graph graph = block(256, 64, 128);
  const auto spec = sharding::TensorShardSpec::parse("RR+P0");
  search::SearchOptions options = within("device");
  options.pins = {{"up", {}, std::vector{spec}, {}}};
  // Gelu is not linear: nobody reads what is kept.
  CHECK_THROWS_WITH(search_plan(graph, model_of("2"), options), Contains("'up'"));
  graph::Graph linear = graph;
  linear.nodes[1].op_type = "Neg";
  const plan::Plan plan = search_plan(linear, model_of("2"), options).plan;
  CHECK(plan.operators[0].outputs[0] == spec);
  CHECK(price_of(linear, model_of("2"), plan) ==
        Approx(plan.predicted.cost_seconds).margin(rounding));
}

TEST_CASE("pins hold, the last that matches counts, and globs mean operators first") {
  const graph::Graph graph = block(256, 64, 128);
  const cost::CostModel cost = model_of("4");
  const auto specs = [](const std::vector<std::string>& texts) {
    std::vector<sharding::TensorShardSpec> result;
    for (const std::string& text : texts) {
      result.push_back(sharding::TensorShardSpec::parse(text));
    }
    return result;
  };
  search::SearchOptions options = within("device");
  options.pins = {{"*", {}, specs({"S0R"}), {}},
                  {"up", specs({"RR", "RS0"}), {}, {}},
                  {"gelu", {}, specs({"RS0"}), {}},
                  {"w2", {}, specs({"RS0"}), {}}};
  const plan::Plan plan = search_plan(graph, cost, options).plan;
  CHECK(plan.operators[0].inputs == specs({"RR", "RS0"}));
  CHECK(plan.operators[1].outputs == specs({"RS0"}));
  CHECK(plan.operators[2].outputs == specs({"S0R"}));
  CHECK(plan.operators[3].outputs == specs({"S0R"}));
  CHECK(to_string(plan.stored.at(graph.nodes[2].inputs[1])) == "RS0");
  CHECK(price_of(graph, cost, plan) == Approx(plan.predicted.cost_seconds).margin(rounding));

  options.pins = {{"w*", {}, specs({"RR"}), {}}};  // matches no operator, so weights
  CHECK(search_plan(graph, cost, options).plan.predicted.weight_bytes == 2 * 64 * 128 * 4);
  options.memory = search::MemoryPolicy::parse("fair");  // allows for what is pinned whole
  CHECK(search_plan(graph, cost, options).plan.predicted.weight_bytes == 2 * 64 * 128 * 4);

  options.pins = {{"nobody", {}, specs({"RR"}), {}}};
  CHECK_THROWS_WITH(search_plan(graph, cost, options), Contains("'nobody'"));
  options.pins = {{"gelu", {}, specs({"RRR"}), {}}};
  CHECK_THROWS_WITH(search_plan(graph, cost, options),
                    Contains("'gelu'") && Contains("outputs RRR") && Contains("RS0->RS0"));
  options.pins = {{"w1", {}, specs({"S1R"}), {}}};
  CHECK_THROWS_WITH(search_plan(graph, cost, options), Contains("'w1'") && Contains("S0R"));
}

TEST_CASE("memory policies") {
  using search::MemoryPolicy;
  CHECK(MemoryPolicy::parse("fair").kind == MemoryPolicy::Kind::fair);
  CHECK(MemoryPolicy::parse("device").kind == MemoryPolicy::Kind::device);
  CHECK(MemoryPolicy::parse("1.5KiB").bytes == 1536);
  CHECK(MemoryPolicy::parse("80GB").bytes == 80'000'000'000);
  CHECK(MemoryPolicy::parse("77").bytes == 77);
  for (const char* bad : {"", "GiB", "-1GiB", "0", "1 GiB", "nan", "inf", "1e30", "fairly"}) {
    CHECK_THROWS_AS(MemoryPolicy::parse(bad), Error);
  }
}

TEST_CASE("an output and the input that it follows in the next step have one spec") {
  // Where nothing ties them, the output of the second product is best left as it is made.
  graph::Graph graph = block(64, 1024, 4096);
  const auto specs = [&](search::SearchMethod method) {
    search::SearchOptions options;
    options.method = method;
    const cost::CostModel cost(cost::load_device_model("h200"), sharding::DeviceMesh({2, 2}));
    const plan::Plan plan = search::search_plan(graph, cost, options).plan;
    return std::pair(plan.spec_of(graph, graph.outputs[0]), plan.spec_of(graph, graph.inputs[0]));
  };
  graph.states = {{0, 0}};
  for (const auto method : {search::SearchMethod::ilp, search::SearchMethod::propagation,
                            search::SearchMethod::recursive}) {
    const auto [output, input] = specs(method);
    CHECK(output == input);
  }
}

TEST_CASE("pins that contradict each other are told as that, not as a lack of memory") {
  graph::Graph graph = block(64, 1024, 4096);
  graph.states = {{0, 0}};
  const std::string first = graph.value(graph.inputs[0]).name;
  const std::string last = graph.nodes.back().name;
  search::SearchOptions options;
  const auto pinned = [](const char* spec) {
    return std::vector{sharding::TensorShardSpec::parse(spec)};
  };
  const cost::CostModel cost(cost::load_device_model("h200"), sharding::DeviceMesh({2}));
  options.pins = {{first, {}, pinned("RS0"), {}}, {last, {}, pinned("RR"), {}}};
  CHECK_THROWS_WITH(search::search_plan(graph, cost, options), Contains("contradict"));
}

TEST_CASE("the dimension along which a state grows is not split") {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto past = value("past", {3, 1024, 64});  // three heads, which two devices cannot share
  const auto x = value("x", {3, 2, 64});
  const auto present = value("present", {3, 1026, 64});
  graph.nodes = {{"append", "Concat", "", {past, x}, {present}, {{"axis", std::int64_t{1}}}}};
  graph.inputs = {past, x};
  graph.outputs = {present};
  graph.states = {{0, 0}};
  const plan::Plan plan =
      search::search_plan(
          graph, cost::CostModel(cost::load_device_model("h200"), sharding::DeviceMesh({2})), {})
          .plan;
  CHECK(plan.spec_of(graph, present) == plan.spec_of(graph, past));
  CHECK(plan.spec_of(graph, present).dims[1].empty());
}
