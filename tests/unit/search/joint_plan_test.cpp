#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan_pricing.h"
#include "program/pipeline_program.h"
#include "search/explanation.h"
#include "search/fair_limit.h"
#include "search/joined_weights.h"
#include "search/search_meshes.h"
#include "search/search_plan.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using Catch::Matchers::Contains;
using graph::DataType;
using graph::ValueId;

namespace {

constexpr double rounding = 1e-9;  // costs are whole picoseconds in the search

/// A model of a few layers over rows whose number a profile binds.
struct RowModel {
  /// A table has a row for each row: as a constant that was folded for one profile.
  enum class Layer { product, bias, gelu, residual, table };
  std::vector<Layer> layers;
  std::vector<graph::Tensor> weights;  ///< by layer; products' and biases' have data
  std::int64_t width = 0;

  graph::Graph with_rows(std::int64_t rows) const {
    graph::Graph graph;
    graph.opsets[""] = 20;
    const auto value = [&](const std::string& name) {
      return graph.add_value({name, DataType::float32, {rows, width}, std::nullopt});
    };
    const ValueId x = value("x");
    ValueId last = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string number = std::to_string(i);
      const ValueId made = value("v" + number);
      const auto weight = [&] { return graph.add_constant("w" + number, weights[i]); };
      const auto add = [&](const std::string& type, std::vector<ValueId> inputs) {
        graph.nodes.push_back({type + number, type, "", std::move(inputs), {made}, {}});
      };
      switch (layers[i]) {
        case Layer::product:
          add("MatMul", {last, weight()});
          break;
        case Layer::bias:
          add("Add", {last, weight()});
          break;
        case Layer::gelu:
          add("Gelu", {last});
          break;
        case Layer::residual:
          add("Add", {last, x});
          break;
        case Layer::table:
          add("Add", {last, graph.add_constant("t" + number, graph::Tensor::zeros(DataType::float32,
                                                                                  {rows, width}))});
          break;
      }
      last = made;
    }
    graph.inputs = {x};
    graph.outputs = {last};
    return graph;
  }
};

RowModel random_model(Random& random, int layers) {
  using Layer = RowModel::Layer;
  RowModel model;
  model.width = any_of(random, std::vector<std::int64_t>{16, 24, 512});
  for (int i = 0; i < layers; ++i) {
    // A product first: without a weight that can be split nothing is joined.
    const Layer layer = i == 0 ? Layer::product : static_cast<Layer>(pick(random, 0, 3));
    model.layers.push_back(layer);
    const bool is_product = layer == Layer::product;
    model.weights.push_back(
        graph::Tensor::zeros(DataType::float32, is_product ? graph::Shape{model.width, model.width}
                                                           : graph::Shape{model.width}));
  }
  return model;
}

/// Profiles of one model, with all that they refer to.
struct Profiles {
  Profiles(const RowModel& model, const std::vector<std::int64_t>& rows,
           const std::vector<double>& weights, const std::string& mesh)
      : cost(model_of(mesh)) {
    for (const std::int64_t each : rows)
      stages.push_back(graph::whole_stage(model.with_rows(each)));
    for (std::size_t p = 0; p < stages.size(); ++p)
      all.push_back({&stages[p], &cost, weights[p], "rows=" + std::to_string(rows[p])});
  }
  Profiles(const Profiles&) = delete;

  const graph::Graph& graph(std::size_t p) const { return stages[p].graph; }

  cost::CostModel cost;
  std::vector<graph::StageGraph> stages;
  std::vector<search::Profile> all;
};

std::vector<std::int64_t> random_rows(Random& random, int count) {
  const std::vector<std::int64_t> choices{1, 2, 7, 64, 500, 4096};
  std::vector<std::int64_t> rows;
  while (std::ssize(rows) < count) {
    const std::int64_t each = any_of(random, choices);
    if (std::ranges::find(rows, each) == rows.end()) rows.push_back(each);
  }
  return rows;
}

std::vector<double> random_weights(Random& random, int count) {
  std::vector<double> weights;
  for (int p = 0; p < count; ++p)
    weights.push_back(any_of(random, std::vector<double>{0.25, 1, 1, 3, 64, 1000}));
  return weights;
}

/// How the weights lie, by name.
using Layout = std::map<std::string, std::string>;

Layout layout_of(const graph::Graph& graph, const plan::Plan& plan) {
  Layout layout;
  for (const auto& [value, spec] : plan.stored)
    if (graph.is_constant(value)) layout[graph.value(value).name] = to_string(spec);
  return layout;
}

/// The least price of one profile by layout, over every plan that can run.
std::map<Layout, double> least_prices(const graph::Graph& graph, const cost::CostModel& cost) {
  std::map<Layout, double> least;
  for_each_plan(
      graph, cost.mesh(), [&](const graph::Value& v) { return places_of(v, cost.mesh()); },
      [&](const plan::Plan& plan) {
        const double price = price_of(graph, cost, plan);
        const auto [entry, is_new] = least.try_emplace(layout_of(graph, plan), price);
        if (!is_new) entry->second = std::min(entry->second, price);
      });
  return least;
}

/// The weighted sum of what the profiles take, by layout.
std::map<Layout, double> joint_prices(const Profiles& profiles) {
  std::map<Layout, double> sums;
  for (std::size_t p = 0; p < profiles.all.size(); ++p) {
    const auto least = least_prices(profiles.graph(p), profiles.cost);
    if (p == 0)
      for (const auto& [layout, price] : least) sums[layout] = 0;
    REQUIRE(sums.size() == least.size());
    for (const auto& [layout, price] : least) sums.at(layout) += profiles.all[p].weight * price;
  }
  return sums;
}

/// Every plan can run, weights lie one way, and what is predicted is what plans are worth.
void check_plans(const Profiles& profiles, const search::JointPlan& found) {
  REQUIRE(found.plans.size() == profiles.all.size());
  double sum = 0;
  for (std::size_t p = 0; p < found.plans.size(); ++p) {
    const plan::Plan& plan = found.plans[p];
    CHECK(can_run(profiles.graph(p), plan));
    CHECK(layout_of(profiles.graph(p), plan) == layout_of(profiles.graph(0), found.plans[0]));
    CHECK(price_of(profiles.graph(p), profiles.cost, plan) ==
          Approx(plan.predicted.cost_seconds).margin(rounding));
    CHECK(weight_bytes_of(profiles.graph(p), plan) == found.predicted.weight_bytes);
    sum += profiles.all[p].weight * plan.predicted.cost_seconds;
  }
  CHECK(sum == Approx(found.predicted.cost_seconds).margin(rounding));
  CHECK(found.report.lower_bound_seconds <= found.predicted.cost_seconds + rounding);
}

std::vector<search::Pin> pins_of(const Layout& layout) {
  std::vector<search::Pin> pins;
  for (const auto& [name, spec] : layout)
    pins.push_back({name, {}, std::vector{sharding::TensorShardSpec::parse(spec)}, {}});
  return pins;
}

}  // namespace

TEST_CASE("the joint plan of random profiles is that of brute force over layouts of weights") {
  Random random(17);
  int differing = 0;
  for (int round = 0; round < 40; ++round) {
    const int count = pick(random, 2, 3);
    const RowModel model = random_model(random, pick(random, 1, 3));
    const Profiles profiles(model, random_rows(random, count), random_weights(random, count),
                            pick(random, 0, 1) ? "2" : "4");
    CAPTURE(round);
    const search::JointPlan found = search_plan(profiles.all, within("device"));
    REQUIRE(found.report.proven_optimal);
    check_plans(profiles, found);
    const auto prices = joint_prices(profiles);
    const auto least = std::ranges::min_element(prices, {}, [](const auto& e) { return e.second; });
    REQUIRE(found.predicted.cost_seconds == Approx(least->second).margin(rounding));

    // The best plan of each profile by itself, imposed on all.
    for (std::size_t p = 0; p < profiles.all.size(); ++p) {
      const plan::Plan alone =
          search_plan(profiles.stages[p], profiles.cost, within("device")).plan;
      const double imposed = prices.at(layout_of(profiles.graph(p), alone));
      REQUIRE(found.predicted.cost_seconds <= imposed + rounding);
      if (found.predicted.cost_seconds < imposed - rounding) ++differing;
      search::SearchOptions pinned = within("device");
      pinned.pins = pins_of(layout_of(profiles.graph(p), alone));
      REQUIRE(search_plan(profiles.all, pinned).predicted.cost_seconds ==
              Approx(imposed).margin(rounding));
    }
  }
  CHECK(differing > 5);
}

TEST_CASE("equal profiles want what one wants, however they are weighted") {
  Random random(3);
  for (int round = 0; round < 10; ++round) {
    const RowModel model = random_model(random, 3);
    const Profiles one(model, {64}, {1}, "2");
    const Profiles two(model, {64, 64}, {3, 2}, "2");
    const double alone = search_plan(one.all, within("fair")).predicted.cost_seconds;
    CHECK(search_plan(two.all, within("fair")).predicted.cost_seconds ==
          Approx(5 * alone).margin(rounding));
  }
}

TEST_CASE("a memory limit holds for each profile by itself, and weights count once") {
  Random random(5);
  int bound_by_limits = 0;
  for (int round = 0; round < 12; ++round) {
    const RowModel model = random_model(random, 3);
    const Profiles profiles(model, {1, 64, 4096}, {1, 1, 1}, "2");
    search::SearchOptions options = within("device");
    const search::JointPlan free = search_plan(profiles.all, options);
    std::int64_t most = 0;
    for (const plan::Plan& plan : free.plans) most = std::max(most, plan.predicted.peak_bytes);
    CHECK(free.predicted.peak_bytes == most);
    // Three profiles need together no more than the largest does by itself.
    const search::SolvedPlan alone = search_plan(profiles.stages[2], profiles.cost, options);
    options.memory = search::MemoryPolicy::parse(std::to_string(alone.plan.predicted.peak_bytes));
    const search::JointPlan fitting = search_plan(profiles.all, options);
    check_plans(profiles, fitting);
    for (const plan::Plan& plan : fitting.plans)
      CHECK(plan.predicted.peak_bytes <= options.memory.bytes);

    // Nothing fits into a byte; the least that is named is enough for every profile.
    options.memory.bytes = 1;
    try {
      search_plan(profiles.all, options);
      FAIL("a plan takes more than a byte");
    } catch (const search::NothingFits& error) {
      options.memory.bytes = error.least_bytes;
    }
    const search::JointPlan tight = search_plan(profiles.all, options);
    check_plans(profiles, tight);
    CHECK(tight.predicted.peak_bytes <= options.memory.bytes);
    CHECK(tight.predicted.cost_seconds >= free.predicted.cost_seconds - rounding);
    bound_by_limits += tight.predicted.cost_seconds > free.predicted.cost_seconds ? 1 : 0;
  }
  CHECK(bound_by_limits > 0);
}

TEST_CASE("fair keeps joined weights within their share, counted once") {
  Random random(7);
  for (int round = 0; round < 10; ++round) {
    const RowModel model = random_model(random, 3);
    const Profiles profiles(model, {1, 4096}, {1, 1}, "4");
    const search::JointPlan found = search_plan(profiles.all, within("fair"));
    check_plans(profiles, found);
    std::int64_t fair = 0;
    for (const graph::Value& value : profiles.graph(0).values)
      if (value.constant)
        fair += search::fair_share(value.constant->size_bytes(), 4,
                                   value.constant->size_bytes() < 1024
                                       ? value.constant->size_bytes()
                                       : value.constant->size_bytes() / 4);
    CHECK(found.predicted.weight_bytes <= fair);
  }
}

TEST_CASE("what is fair with the weights of one profile's plan is fair for all profiles") {
  Random random(29);
  int dearer = 0;
  for (int round = 0; round < 30; ++round) {
    RowModel model = random_model(random, 3);
    model.layers.push_back(RowModel::Layer::table);
    model.weights.push_back(graph::Tensor::zeros(DataType::float32, {1}));  // not looked at
    const Profiles profiles(model, random_rows(random, 2), random_weights(random, 2), "4");
    const search::JointPlan found = search_plan(profiles.all, within("fair"));
    REQUIRE(found.report.proven_optimal);
    const std::int64_t limit = found.built.problem.usage_limits.front();
    for (std::size_t p = 0; p < profiles.all.size(); ++p) {
      Layout layout = layout_of(
          profiles.graph(p), search_plan(profiles.stages[p], profiles.cost, within("fair")).plan);
      std::erase_if(layout, [](const auto& entry) { return entry.first.starts_with("t"); });
      search::SearchOptions pinned = within("fair");
      pinned.pins = pins_of(layout);
      const search::JointPlan imposed = search_plan(profiles.all, pinned);
      CAPTURE(round, p);
      CHECK(imposed.built.problem.usage_limits.front() == limit);
      CHECK(imposed.predicted.weight_bytes <= limit);
      CHECK(imposed.predicted.cost_seconds >= found.predicted.cost_seconds - rounding);
      dearer += imposed.predicted.cost_seconds > found.predicted.cost_seconds + rounding ? 1 : 0;
    }
  }
  CHECK(dearer > 3);
}

TEST_CASE("quick methods plan profiles together") {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    const int count = pick(random, 2, 3);
    const RowModel model = random_model(random, 4);
    const Profiles profiles(model, random_rows(random, count), random_weights(random, count),
                            pick(random, 0, 1) ? "4" : "2x2");
    for (const char* memory : {"device", "fair"}) {
      search::SearchOptions options = within(memory);
      const double best = search_plan(profiles.all, options).predicted.cost_seconds;
      for (const auto method :
           {search::SearchMethod::propagation, search::SearchMethod::recursive}) {
        options.method = method;
        const search::JointPlan found = search_plan(profiles.all, options);
        check_plans(profiles, found);
        CHECK(found.predicted.cost_seconds >= best - rounding);
        CHECK(found.report.lower_bound_seconds <= best + rounding);
      }
    }
  }
}

TEST_CASE("several meshes are searched for all profiles") {
  Random random(13);
  const RowModel model = random_model(random, 3);
  const Profiles line(model, {1, 4096}, {64, 1}, "4");
  const Profiles square(model, {1, 4096}, {64, 1}, "2x2");
  const std::vector<std::vector<search::Profile>> meshes{line.all, square.all};
  const search::JointPlan found = search_meshes(meshes, within("fair"));
  const double on_line = search_plan(line.all, within("fair")).predicted.cost_seconds;
  const double on_square = search_plan(square.all, within("fair")).predicted.cost_seconds;
  CHECK(found.predicted.cost_seconds == Approx(std::min(on_line, on_square)));
  CHECK(found.report.meshes.size() == 2);
}

TEST_CASE("an operator of one profile is explained by plans of all") {
  Random random(19);
  for (int round = 0; round < 6; ++round) {
    const RowModel model = random_model(random, 3);
    const Profiles profiles(model, {1, 500}, {64, 1}, "2");
    const search::JointPlan found = search_plan(profiles.all, within("fair"));
    for (const std::size_t p : {0U, 1U}) {
      const search::Explanation explanation = explain_operator(profiles.all, found, p, 0, 20);
      CHECK(explanation.plan_seconds == Approx(found.predicted.cost_seconds));
      REQUIRE(explanation.candidates.front().is_chosen);
      CHECK(explanation.candidates.front().strategy == found.plans[p].operators[0]);
      for (const auto& candidate : explanation.candidates) {
        if (candidate.proof != search::Explanation::Proof::exact) continue;
        search::SearchOptions pinned = within("fair");
        pinned.pins = {{profiles.graph(p).nodes[0].name, candidate.strategy.inputs,
                        candidate.strategy.outputs, candidate.strategy.reductions,
                        profiles.all[p].name}};
        const double seconds = search_plan(profiles.all, pinned).predicted.cost_seconds;
        CHECK(candidate.worse_by_seconds ==
              Approx(seconds - found.predicted.cost_seconds).margin(rounding));
      }
    }
  }
}

TEST_CASE("pins are for one profile or for all that have what they name") {
  Random random(23);
  const RowModel model = random_model(random, 2);
  const Profiles profiles(model, {64, 4096}, {1, 1}, "2");
  search::SearchOptions options = within("device");
  const auto whole = std::vector{sharding::TensorShardSpec::parse("RR")};
  options.pins = {
      {"MatMul0", {}, whole, {}, "rows=64"},
      {"MatMul0", {}, std::vector{sharding::TensorShardSpec::parse("S0R")}, {}, "rows=4096"}};
  const search::JointPlan found = search_plan(profiles.all, options);
  CHECK(to_string(found.plans[0].operators[0].outputs[0]) == "RR");
  CHECK(to_string(found.plans[1].operators[0].outputs[0]) == "S0R");
  options.pins = {{"MatMul0", {}, whole, {}}};
  for (const plan::Plan& plan : search_plan(profiles.all, options).plans)
    CHECK(to_string(plan.operators[0].outputs[0]) == "RR");
  options.pins = {{"nobody", {}, whole, {}}};
  CHECK_THROWS_WITH(search_plan(profiles.all, options), Contains("'nobody'"));
  options.pins = {{"MatMul0", {}, whole, {}, "rows=3"}};
  CHECK_THROWS_WITH(search_plan(profiles.all, options), Contains("'rows=64', 'rows=4096'"));
  options.pins = {
      {"w0", {}, whole, {}, "rows=64"},
      {"w0", {}, std::vector{sharding::TensorShardSpec::parse("S0R")}, {}, "rows=4096"}};
  CHECK_THROWS_WITH(search_plan(profiles.all, options), Contains("one way for all"));
}

TEST_CASE("constants are one weight where name, type, shape and data are") {
  const auto with = [](const std::string& name, graph::Tensor tensor) {
    graph::Graph graph;
    graph.add_constant(name, std::move(tensor));
    return graph;
  };
  const graph::Tensor ones = graph::Tensor::of_int64({2}, std::vector<std::int64_t>{1, 1});
  const graph::Tensor same = graph::Tensor::of_int64({2}, std::vector<std::int64_t>{1, 1});
  const graph::Tensor other = graph::Tensor::of_int64({2}, std::vector<std::int64_t>{1, 2});
  const graph::Graph a = with("w", ones);
  const graph::Graph b = with("w", same);
  const graph::Graph c = with("w", other);
  const graph::Graph d = with("v", ones);
  const graph::Graph e = with("w", ones.reshaped({1, 2}));
  const graph::Graph* graphs[] = {&a, &b, &c, &d, &e};
  const auto numbers = search::join_weights(graphs);
  CHECK(numbers[0].at(0) == 0);
  CHECK(numbers[1].at(0) == 0);
  CHECK(numbers[2].at(0) == 1);
  CHECK(numbers[3].at(0) == 2);
  CHECK(numbers[4].at(0) == 3);
  CHECK(search::joined_weight_bytes(graphs) == 4 * 16);

  const graph::Graph absent = with("w", graph::Tensor::absent(DataType::int64, {2}));
  const graph::Graph too = with("w", graph::Tensor::absent(DataType::int64, {2}));
  const graph::Graph* without_data[] = {&absent, &too, &a};
  const auto of_absent = search::join_weights(without_data);
  CHECK(of_absent[0] == of_absent[1]);
  CHECK(of_absent[0] != of_absent[2]);
}

TEST_CASE("a state lies one way in all profiles, and no profile splits where its extents differ") {
  // past (2, length, 8) -> present, which is past with what is new.
  const auto step = [](std::int64_t length, std::int64_t heads) {
    graph::Graph graph;
    graph.opsets[""] = 20;
    const auto value = [&](const std::string& name, const graph::Shape& shape) {
      return graph.add_value({name, DataType::float32, shape, std::nullopt});
    };
    const ValueId past = value("past", {heads, length, 8});
    const ValueId added = value("new", {heads, length, 8});
    const ValueId present = value("present", {heads, length, 8});
    graph.nodes = {{"append", "Add", "", {past, added}, {present}, {}}};
    graph.inputs = {past, added};
    graph.outputs = {present};
    graph.states = {{0, 0}};
    return graph;
  };
  const cost::CostModel cost = model_of("2");
  for (const std::int64_t other : {64, 4096}) {
    const graph::StageGraph first = graph::whole_stage(step(64, 4));
    const graph::StageGraph second = graph::whole_stage(step(other, 4));
    const std::vector<search::Profile> profiles{{&first, &cost, 1, "a"}, {&second, &cost, 5, "b"}};
    const search::JointPlan found = search_plan(profiles, within("device"));
    const auto spec = found.plans[0].stored.at(0);
    CHECK(spec == found.plans[1].stored.at(0));
    CHECK(spec == found.plans[1].operators[0].outputs[0]);
    if (other != 64) CHECK(spec.dims[1].empty());
    search::SearchOptions options = within("device");
    options.pins = {{"past", {}, std::vector{sharding::TensorShardSpec::parse("RS0R")}, {}, "a"}};
    if (other == 64)
      CHECK(to_string(search_plan(profiles, options).plans[1].stored.at(0)) == "RS0R");
    else
      CHECK_THROWS_WITH(search_plan(profiles, options), Contains("contradict"));
  }
}
