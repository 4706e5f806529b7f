#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "search/logical_meshes.h"
#include "search/plan_builder.h"
#include "search/search_meshes.h"
#include "search/stages/layers.h"
#include "search/stages/search_pipeline.h"
#include "sharding/cross_mesh.h"
#include "unit/assignment/brute_force.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using assignment::Cost;
using assignment::impossible;
using Catch::Matchers::Contains;
using plan::Objective;

namespace {

std::vector<cost::CostModel> all_meshes(int devices, const cost::DeviceModel& device) {
  std::vector<cost::CostModel> models;
  for (const auto& mesh : search::logical_meshes(devices, device.gpus_per_node))
    models.emplace_back(device, mesh);
  return models;
}

search::SearchOptions within(const std::string& memory) {
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::parse(memory);
  return options;
}

Cost in_picoseconds(double seconds) { return std::llround(seconds * 1e12); }

search::FoundPipeline search_stages(const graph::Graph& graph, const cost::DeviceModel& device,
                                    int devices, const search::SearchOptions& options,
                                    const search::PipelineOptions& pipeline) {
  return search_pipeline(graph, graph, all_meshes(devices, device), options, pipeline);
}

/// All pipelines of a small model: every cut between nodes, every sequence of devices, every view,
/// every strategy. Shares no code with the search of stages.
class AllPipelines {
 public:
  AllPipelines(const graph::Graph& graph, const cost::DeviceModel& device, int devices,
               const search::SearchOptions& options, const search::PipelineOptions& pipeline)
      : graph_(graph),
        cutter_(graph),
        device_(device),
        devices_(devices),
        options_(options),
        pipeline_(pipeline) {}

  /// The least cost; `impossible` where nothing fits.
  Cost least() {
    extend(0, 0, 0, {});
    return least_;
  }

 private:
  void extend(int node, int rank, int last, std::vector<Cost> slots) {
    const auto nodes = static_cast<int>(graph_.nodes.size());
    if (node == nodes && rank == devices_) {
      const auto stages = static_cast<int>(slots.size() + 1) / 2;
      if (pipeline_.stages == 0 || pipeline_.stages == stages) consider(slots);
    }
    for (int end = node + 1; end <= nodes; ++end) {
      if (parts_a_state(end)) continue;
      for (int size = 1; rank + size <= devices_; ++size) {
        if (!may_stand(rank, size)) continue;
        const Cost cost = stage_cost(node, end, size);
        if (cost >= impossible) continue;
        std::vector<Cost> longer = slots;
        if (node > 0) longer.push_back(transfer_cost(node, last, size, rank));
        longer.push_back(cost);
        extend(end, rank + size, size, std::move(longer));
      }
    }
  }

  void consider(const std::vector<Cost>& slots) {
    Cost sum = 0;
    Cost slowest = 0;
    for (const Cost slot : slots) {
      sum += slot;
      slowest = std::max(slowest, slot);
    }
    const Cost cost = pipeline_.objective == Objective::latency
                          ? sum + (pipeline_.microbatches - 1) * slowest
                          : pipeline_.microbatches * slowest;
    least_ = std::min(least_, cost);
  }

  /// Whether one of a state's users stands before the cut and another one behind it.
  bool parts_a_state(int cut) const {
    return std::ranges::any_of(graph_.states, [&](const graph::State& state) {
      std::set<bool> sides;
      for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
        const auto& [inputs, outputs] = std::tie(graph_.node(n).inputs, graph_.node(n).outputs);
        if (std::ranges::count(inputs, graph_.inputs[state.input]) +
                std::ranges::count(outputs, graph_.outputs[state.output]) >
            0)
          sides.insert(n < cut);
      }
      return sides.size() > 1;
    });
  }

  bool may_stand(int rank, int size) const {
    int node = device_.gpus_per_node == 0 ? devices_ : device_.gpus_per_node;
    if (devices_ < node) node = devices_;
    if (size % node == 0) return rank % node == 0;
    return size < node && (size & (size - 1)) == 0 && rank % node + size <= node;
  }

  Cost transfer_cost(int node, int senders, int receivers, int rank) const {
    double seconds = 0;
    for (const graph::ValueId id : cutter_.crossing(node)) {
      const graph::Value& value = graph_.value(id);
      seconds +=
          cost::transfer_seconds(graph::bytes_of(value.type, graph::num_elements(value.shape)),
                                 senders, receivers, device_.boundary_link(rank));
    }
    return in_picoseconds(seconds);
  }

  Cost stage_cost(int begin, int end, int size) {
    const auto [entry, is_new] = costs_.try_emplace({begin, end, size}, impossible);
    if (!is_new) return entry->second;
    const graph::StageGraph stage = cutter_.cut(begin, end);
    for (const auto& mesh : search::logical_meshes(size, device_.gpus_per_node)) {
      const auto built = build_plan_problem(stage.graph, {device_, mesh}, options_, stage.received);
      double choices = 1;
      for (const auto& node : built.problem.nodes)
        choices *= static_cast<double>(node.costs.size());
      const assignment::Solution solution = choices < 20000
                                                ? solve_by_brute_force(built.problem)
                                                : solve(built.problem, assignment::SolveOptions{});
      if (solution.status == assignment::Status::optimal)
        entry->second = std::min(entry->second, solution.cost);
    }
    return entry->second;
  }

  const graph::Graph& graph_;
  const graph::StageCutter cutter_;
  const cost::DeviceModel& device_;
  const int devices_;
  const search::SearchOptions& options_;
  const search::PipelineOptions& pipeline_;
  std::map<std::tuple<int, int, int>, Cost> costs_;
  Cost least_ = impossible;
};

cost::DeviceModel random_device(Random& random, int devices) {
  cost::DeviceModel device = cost::load_device_model("cpu");
  device.launch_seconds = any_of(random, std::vector{0.0, 1e-8, 2e-6});
  device.memory_bytes_per_second = any_of(random, std::vector{1e7, 1e9, 1e10});
  const auto link = [&] {
    return cost::Link{any_of(random, std::vector{0.0, 1e-8, 1e-6, 1e-5}),
                      any_of(random, std::vector{1e7, 1e9, 1e11})};
  };
  device.links = {link()};
  if (devices % 2 == 0 && pick(random, 0, 1)) {
    device.gpus_per_node = 2;
    device.links = {link(), link()};
  }
  return device;
}

/// `count` times x = relu(x w), each weight of `width` squared.
graph::Graph chain(int count, std::int64_t rows, std::int64_t width) {
  graph::Graph graph;
  graph.name = "chain";
  graph.opsets[""] = 20;
  const auto tensor = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {rows, width}, std::nullopt});
  };
  graph::ValueId x = tensor("x");
  graph.inputs = {x};
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    const auto w = graph.add_constant(
        "w" + name, graph::Tensor::absent(graph::DataType::float32, {width, width}));
    const auto product = tensor("product" + name);
    const auto y = tensor("y" + name);
    graph.nodes.push_back({"matmul" + name, "MatMul", "", {x, w}, {product}, {}});
    graph.nodes.push_back({"relu" + name, "Relu", "", {product}, {y}, {}});
    x = y;
  }
  graph.outputs = {x};
  return graph;
}

/// Two machines of four.
cost::DeviceModel two_machines(double bytes_per_second_between) {
  cost::DeviceModel device = cost::load_device_model("h100");
  device.gpus_per_node = 4;
  device.links = {{3e-6, 450e9}, {1e-5, bytes_per_second_between}};
  return device;
}

/// A state of some tensor of the graph: what follows from it and from what was there before, made
/// some nodes behind.
void add_state(Random& random, graph::Graph& graph) {
  const int reader = pick(random, 0, static_cast<int>(graph.nodes.size()) - 1);
  const graph::ValueId from = graph.node(reader).outputs.front();
  const auto like = [&](const std::string& name) {
    graph::Value value = graph.value(from);
    value.name = name + std::to_string(graph.states.size());
    return graph.add_value(value);
  };
  const graph::ValueId past = like("past"), sum = like("sum"), present = like("present");
  const auto insert = [&](int place, const graph::Node& node) {
    graph.nodes.insert(graph.nodes.begin() + place, node);
  };
  insert(reader + 1, {graph.value(sum).name, "Add", "", {from, past}, {sum}, {}});
  const int maker = pick(random, reader + 2, static_cast<int>(graph.nodes.size()));
  insert(maker, {graph.value(present).name, "Relu", "", {sum}, {present}, {}});
  graph.states.push_back({graph.outputs.size(), graph.inputs.size()});
  graph.inputs.push_back(past);
  graph.outputs.push_back(present);
  graph::check_invariants(graph);
}

/// Each is whole in one stage, and lies one way there.
int check_states(const plan::PipelinePlan& plan, const graph::Graph& graph) {
  int found = 0;
  for (const plan::StagePlan& stage : plan.stages) {
    const graph::Graph& own = stage.stage.graph;
    for (const graph::State& state : own.states) {
      const graph::ValueId made = own.outputs.at(state.output), read = own.inputs.at(state.input);
      CHECK(stage.plan.spec_of(own, made) == stage.plan.spec_of(own, read));
      ++found;
    }
  }
  CHECK(found == std::ssize(graph.states));
  return found;
}

void check_shape(const plan::PipelinePlan& plan, const graph::Graph& graph, int devices) {
  int rank = 0;
  std::size_t nodes = 0;
  for (const plan::StagePlan& stage : plan.stages) {
    CHECK(stage.first_rank == rank);
    CHECK(stage.plan.operators.size() == stage.stage.graph.nodes.size());
    CHECK(stage.stage.graph.nodes.front().name == graph.nodes.at(nodes).name);
    for (const graph::ValueId value : stage.stage.received) {
      const auto allowed =
          sharding::receive_specs(stage.stage.graph.value(value).shape, stage.plan.mesh);
      CHECK(std::ranges::find(allowed, stage.plan.stored.at(value)) != allowed.end());
    }
    for (const graph::ValueId value : stage.stage.sent)
      CHECK_FALSE(stage.plan.spec_of(stage.stage.graph, value).is_partial());
    rank += stage.num_devices();
    nodes += stage.stage.graph.nodes.size();
  }
  CHECK(rank == devices);
  CHECK(nodes == graph.nodes.size());
  CHECK(plan.stages.back().transfer_seconds == 0);
}

}  // namespace

namespace {

struct Tally {
  int in_stages = 0;
  int infeasible = 0;
  int states = 0;  ///< in several stages
};

/// The best pipeline of a small model is the best of all.
void check_best(Random& random, const graph::Graph& graph, Tally& tally) {
  const int devices = any_of(random, std::vector{1, 2, 3, 4, 4, 6});
  const cost::DeviceModel device = random_device(random, devices);
  search::PipelineOptions pipeline;
  pipeline.epsilon = 0;
  pipeline.microbatches = any_of(random, std::vector{1, 2, 4, 16});
  pipeline.objective = pick(random, 0, 2) ? Objective::latency : Objective::throughput;
  const graph::StageCutter cutter(graph);
  const int most = std::min(devices, static_cast<int>(search::possible_cuts(graph, cutter).size()));
  if (pick(random, 0, 1)) pipeline.stages = pick(random, 1, most);
  search::SearchOptions options = within("fair");
  if (pick(random, 0, 3) == 0) options.memory = search::MemoryPolicy::parse("device");
  if (pick(random, 0, 4) == 0) {
    options.memory.kind = search::MemoryPolicy::Kind::bytes;
    options.memory.bytes = pick(random, 20, 3000);
  }
  // The model as a whole, where it is a candidate, on a graph of its own.
  const graph::Graph whole =
      pipeline.microbatches == 1 ? graph : RandomGraph(random).grow(pick(random, 4, 8));
  Cost expected = AllPipelines(graph, device, devices, options, pipeline).least();
  const auto meshes = all_meshes(devices, device);
  if (pipeline.stages == 0) {
    try {
      const double alone = search_meshes(whole, meshes, options).plan.predicted.cost_seconds;
      expected = std::min(expected, in_picoseconds(alone));
    } catch (const search::NothingFits&) {
    }
  }
  try {
    const auto [plan, plan_report] = search_pipeline(whole, graph, meshes, options, pipeline);
    CHECK(in_picoseconds(plan.predicted.cost_seconds) == expected);
    CHECK(in_picoseconds(plan_report.lower_bound_seconds) == expected);
    CHECK(plan_report.proven_optimal);
    CHECK(in_picoseconds(pipeline_seconds(plan)) == expected);
    if (plan.stages.size() == 1) return;
    check_shape(plan, graph, devices);
    tally.states += check_states(plan, graph);
    ++tally.in_stages;
  } catch (const search::NothingFits&) {
    CHECK(expected == impossible);
    ++tally.infeasible;
  }
}

graph::Graph small_graph(Random& random, int most_operators, std::size_t most_nodes) {
  graph::Graph graph;
  do graph = RandomGraph(random).grow(pick(random, 1, most_operators));
  while (graph.nodes.empty() || graph.nodes.size() > most_nodes);
  return graph;
}

}  // namespace

TEST_CASE("the search of stages finds what all pipelines of a small model have at best") {
  Random random(11);
  Tally tally;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    check_best(random, small_graph(random, 4, 7), tally);
  }
  CHECK(tally.in_stages > 50);
  CHECK(tally.infeasible > 5);
}

TEST_CASE("the best pipeline has each state in one stage") {
  Random random(12);
  Tally tally;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    graph::Graph graph = small_graph(random, 3, 4);
    for (int states = pick(random, 1, 2); states > 0; --states) add_state(random, graph);
    check_best(random, graph, tally);
  }
  CHECK(tally.in_stages > 40);
  CHECK(tally.states > 50);
}

TEST_CASE("a state that spans the model leaves one stage alone") {
  graph::Graph graph = chain(4, 64, 64);  // the output is the next step's input
  graph.states = {{0, 0}};
  search::PipelineOptions pipeline;
  pipeline.stages = 2;
  const auto device = cost::load_device_model("h100");
  CHECK_THROWS_WITH(
      search_stages(graph, device, 4, within("fair"), pipeline),
      Contains("--stages 2: the model can be cut into 1 at most") && Contains("--loop none"));
  pipeline.stages = 0;
  CHECK(search_stages(graph, device, 4, within("fair"), pipeline).plan.stages.size() == 1);
}

TEST_CASE("on slow links between machines the search picks stages, on fast ones it does not") {
  const graph::Graph graph = chain(8, 2048, 4096);
  search::PipelineOptions pipeline;
  pipeline.objective = Objective::latency;
  const plan::PipelinePlan slow =
      search_stages(graph, two_machines(1e9), 8, within("fair"), pipeline).plan;
  CHECK(slow.stages.size() > 1);
  check_shape(slow, graph, 8);
  const auto [fast, fast_report] =
      search_stages(graph, two_machines(450e9), 8, within("fair"), pipeline);
  CHECK(fast.stages.size() == 1);
  CHECK(fast_report.lower_bound_seconds <= fast.predicted.cost_seconds);
}

TEST_CASE("machines on Ethernet are stages, GPUs on NVLink are one") {
  const graph::Graph graph = chain(8, 2048, 4096);
  search::PipelineOptions pipeline;
  const auto ethernet = cost::load_device_model("l4-ethernet");
  const plan::PipelinePlan slow =
      search_stages(graph, ethernet, 2 * ethernet.gpus_per_node, within("fair"), pipeline).plan;
  CHECK(slow.stages.size() > 1);
  const plan::PipelinePlan fast =
      search_stages(graph, cost::load_device_model("h200"), 8, within("fair"), pipeline).plan;
  CHECK(fast.stages.size() == 1);
}

TEST_CASE("one stage and one run is the plan without stages") {
  const graph::Graph graph = chain(3, 64, 64);
  const auto device = two_machines(1e9);
  const auto meshes = all_meshes(8, device);
  const plan::Plan plan = search_meshes(graph, meshes, within("fair")).plan;
  search::PipelineOptions pipeline;
  pipeline.stages = 1;
  const plan::PipelinePlan one =
      search_pipeline(graph, graph, meshes, within("fair"), pipeline).plan;
  REQUIRE(one.stages.size() == 1);
  CHECK_FALSE(one.is_pipeline());
  CHECK(one.predicted.cost_seconds == plan.predicted.cost_seconds);
  CHECK(one.stages.front().plan.operators == plan.operators);
  CHECK(one.stages.front().plan.stored == plan.stored);
  pipeline.microbatches = 3;
  const plan::PipelinePlan three =
      search_pipeline(graph, graph, meshes, within("fair"), pipeline).plan;
  REQUIRE(three.stages.size() == 1);
  CHECK(three.predicted.cost_seconds == Approx(3 * plan.predicted.cost_seconds));
  CHECK(three.is_pipeline());
}

TEST_CASE("identical runs of layers are searched once") {
  const graph::Graph graph = chain(12, 256, 256);
  search::PipelineOptions pipeline;
  pipeline.stages = 4;
  pipeline.layers = 12;
  pipeline.epsilon = 0;
  pipeline.microbatches = 4;
  const auto device = two_machines(1e9);
  const auto [plan, plan_report] = search_stages(graph, device, 8, within("fair"), pipeline);
  CHECK(plan_report.layers == 12);
  check_shape(plan, graph, 8);
  // 78 runs of layers on 4 submeshes with 7 views in all are 546 problems.
  CHECK(plan_report.stages_searched < 120);
}

TEST_CASE("a mesh that is given is that of every stage") {
  const graph::Graph graph = chain(4, 64, 64);
  const auto device = cost::load_device_model("h100");
  search::PipelineOptions pipeline;
  pipeline.mesh = sharding::DeviceMesh({2});
  pipeline.stages = 3;
  const plan::PipelinePlan plan = search_stages(graph, device, 6, within("fair"), pipeline).plan;
  REQUIRE(plan.stages.size() == 3);
  for (const auto& stage : plan.stages) CHECK(stage.plan.mesh == sharding::DeviceMesh({2}));
  pipeline.stages = 2;
  CHECK_THROWS_WITH(search_stages(graph, device, 6, within("fair"), pipeline),
                    Contains("--stages 2") && Contains("3 would do"));
  pipeline.mesh = sharding::DeviceMesh({4});
  CHECK_THROWS_WITH(search_stages(graph, device, 6, within("fair"), pipeline),
                    Contains("--mesh 4"));
}

TEST_CASE("what cannot be cut into so many stages is refused in one line") {
  const graph::Graph graph = chain(2, 64, 64);
  const auto device = cost::load_device_model("h100");
  search::PipelineOptions pipeline;
  pipeline.stages = 5;
  CHECK_THROWS_WITH(search_stages(graph, device, 4, within("fair"), pipeline),
                    Contains("--stages 5") && Contains("at most 4"));
  CHECK_THROWS_WITH(search_stages(graph, device, 8, within("fair"), pipeline),
                    Contains("4 operators") && Contains("at most 4"));
}

TEST_CASE("a memory limit holds for each stage, and a stage that fits nowhere is named") {
  const graph::Graph graph = chain(8, 64, 256);  // weights of 256 KiB each
  const auto device = cost::load_device_model("h100");
  search::PipelineOptions pipeline;
  pipeline.stages = 4;
  const std::int64_t limit = 1'000'000;  // of two layers' weights and some activations
  const plan::PipelinePlan plan =
      search_stages(graph, device, 4, within(std::to_string(limit)), pipeline).plan;
  for (const auto& stage : plan.stages) CHECK(stage.plan.predicted.peak_bytes <= limit);
  CHECK(plan.predicted.peak_bytes <= limit);
  CHECK_THROWS_WITH(search_stages(graph, device, 4, within("300000"), pipeline),
                    Contains("a stage from 'matmul") && Contains("--memory"));

  std::atomic<int> asked = 0;
  search::SearchOptions options = within("device");
  options.run_bytes = [&](const graph::Graph&, int) {
    ++asked;
    return std::int64_t{1} << 50;
  };
  CHECK_THROWS_AS(search_stages(graph, device, 4, options, pipeline), search::NothingFits);
  CHECK(asked > 0);
}

TEST_CASE("without time there is a pipeline still, with a bound") {
  const graph::Graph graph = chain(6, 128, 256);
  search::SearchOptions options = within("fair");
  options.time_limit_seconds = 0;
  search::PipelineOptions pipeline;
  pipeline.stages = 3;
  const auto [plan, plan_report] = search_stages(graph, two_machines(1e9), 8, options, pipeline);
  CHECK(plan.stages.size() == 3);
  CHECK(plan_report.lower_bound_seconds > 0);
  CHECK(plan_report.lower_bound_seconds <= plan.predicted.cost_seconds);
}

TEST_CASE("nothing is proven where one kind of plans was not seen to the end") {
  const graph::Graph graph = chain(4, 128, 256);
  const graph::Graph shorter = chain(2, 64, 256);
  const auto device = two_machines(1e9);
  const auto meshes = all_meshes(8, device);
  const std::int64_t too_much = std::int64_t{1} << 50;
  const auto check_open = [](const search::FoundPipeline& found) {
    CHECK_FALSE(found.report.proven_optimal);
    CHECK(found.report.lower_bound_seconds > 0);
    CHECK(found.report.lower_bound_seconds < found.plan.predicted.cost_seconds);
  };
  for (const double seconds : {0.0, 60.0}) {
    CAPTURE(seconds);
    search::SearchOptions options = within("device");
    options.time_limit_seconds = seconds;
    options.pins = {{"matmul0", {}, {}, {}}};  // which leaves bounds by operators alone
    search::PipelineOptions pipeline;
    pipeline.microbatches = 2;
    options.run_bytes = [=](const graph::Graph&, int microbatches) {
      return microbatches > 1 ? too_much : 1;
    };
    // A smaller model, so that stages might be faster.
    const auto whole = search_pipeline(graph, shorter, meshes, options, pipeline);
    CHECK_FALSE(whole.plan.is_pipeline());
    check_open(whole);
    options.run_bytes = [=](const graph::Graph&, int microbatches) {
      return microbatches > 1 ? 1 : too_much;
    };
    // A model as large, so that the whole might be faster.
    const auto staged = search_pipeline(graph, graph, meshes, options, pipeline);
    CHECK(staged.plan.microbatches == 2);
    check_open(staged);
    options.run_bytes = [=](const graph::Graph&, int) { return too_much; };
    try {
      search_pipeline(graph, graph, meshes, options, pipeline);
      FAIL("nothing fits");
    } catch (const search::NothingFits& error) {
      CHECK_FALSE(error.is_proven);
    }
  }
}

TEST_CASE("without time a stage that has no quick plan is passed by") {
  const graph::Graph graph = chain(6, 128, 256);
  search::SearchOptions options = within("device");
  options.time_limit_seconds = 0;
  search::PipelineOptions pipeline;
  pipeline.stages = 3;
  std::mutex mutex;
  std::optional<std::pair<std::string, std::string>> refused;  // the first that is asked for
  options.run_bytes = [&](const graph::Graph& shard, int) -> std::int64_t {
    const auto is_of_model = [](const graph::Node& node) {
      return node.op_type == "MatMul" || node.op_type == "Relu";
    };
    const auto first = std::ranges::find_if(shard.nodes, is_of_model);
    const auto last = std::find_if(shard.nodes.rbegin(), shard.nodes.rend(), is_of_model);
    const std::pair ends(first->name, last->name);
    const std::lock_guard lock(mutex);
    if (!refused) refused = ends;
    return *refused == ends ? std::int64_t{1} << 50 : 1;
  };
  const plan::PipelinePlan plan =
      search_stages(graph, two_machines(1e9), 8, options, pipeline).plan;
  check_shape(plan, graph, 8);
  REQUIRE(refused);
  for (const plan::StagePlan& stage : plan.stages) {
    const graph::Graph& own = stage.stage.graph;
    CHECK(std::pair(own.nodes.front().name, own.nodes.back().name) != *refused);
  }
  options.run_bytes = [](const graph::Graph&, int) { return std::int64_t{1} << 50; };
  CHECK_THROWS_WITH(search_stages(graph, two_machines(1e9), 8, options, pipeline),
                    Contains("--time-limit"));
}

TEST_CASE("what every mesh of one stage costs is told of all microbatches") {
  const graph::Graph graph = chain(3, 64, 64);
  const auto device = two_machines(1e9);
  search::PipelineOptions pipeline;
  pipeline.stages = 1;
  pipeline.microbatches = 3;
  const auto [plan, plan_report] = search_stages(graph, device, 8, within("fair"), pipeline);
  REQUIRE_FALSE(plan_report.meshes.empty());
  double least = std::numeric_limits<double>::infinity();
  for (const search::MeshTrial& trial : plan_report.meshes) {
    least = std::min(least, trial.cost_seconds.value_or(least));
    CHECK(trial.lower_bound_seconds >= plan_report.lower_bound_seconds * (1 - 1e-9));
  }
  CHECK(least == Approx(plan.predicted.cost_seconds));
}

TEST_CASE("what arrives is stored in a receive spec, however small it is") {
  const graph::Graph graph = chain(2, 4, 4);
  const graph::StageGraph stage = graph::StageCutter(graph).cut(2, 4);
  REQUIRE(stage.received.size() == 1);
  const cost::CostModel cost(cost::load_device_model("h100"), sharding::DeviceMesh({2, 2}));
  const auto built = search::build_plan_problem(stage.graph, cost, {}, stage.received);
  CHECK(built.stored_of(stage.received.front()).specs ==
        sharding::receive_specs({4, 4}, cost.mesh()));
  CHECK(sharding::receive_specs({1, 1}, cost.mesh()) ==
        std::vector{sharding::TensorShardSpec::replicated(2)});
}

TEST_CASE("a pin is for the stage that has the operator") {
  const graph::Graph graph = chain(4, 512, 1024);
  search::SearchOptions options = within("device");
  const auto pinned = sharding::TensorShardSpec::parse("S0R");
  options.pins = {{"matmul3", {}, {{pinned}}, {}}};
  search::PipelineOptions pipeline;
  pipeline.stages = 2;
  const plan::PipelinePlan plan =
      search_stages(graph, cost::load_device_model("h100"), 4, options, pipeline).plan;
  REQUIRE(plan.stages.size() == 2);
  int found = 0;
  for (const plan::StagePlan& stage : plan.stages) {
    for (std::size_t n = 0; n < stage.stage.graph.nodes.size(); ++n) {
      if (stage.stage.graph.nodes[n].name != "matmul3") continue;
      ++found;
      CHECK(stage.plan.operators[n].outputs.front() == pinned);
    }
  }
  CHECK(found == 1);
  options.pins = {{"no such operator", {}, {{pinned}}, {}}};
  CHECK_THROWS_WITH(search_stages(graph, cost::load_device_model("h100"), 4, options, pipeline),
                    Contains("no such operator"));
}

TEST_CASE("a glob over operators pins no tensor of a stage that has none of them") {
  graph::Graph graph = chain(4, 512, 1024);
  // The glob names the first layer's operators and, in the last layer, a weight alone.
  graph.nodes[0].name = "block/matmul";
  graph.nodes[1].name = "block/relu";
  for (graph::Value& value : graph.values) {
    if (value.name == "w3") value.name = "block/w3";
  }
  const auto spec_of_it = [](const search::FoundPipeline& found) {
    for (const plan::StagePlan& stage : found.plan.stages) {
      for (std::size_t v = 0; v < stage.stage.graph.values.size(); ++v) {
        if (stage.stage.graph.values[v].name == "block/w3")
          return to_string(stage.plan.stored.at(static_cast<graph::ValueId>(v)));
      }
    }
    return std::string("none");
  };
  search::SearchOptions options = within("device");
  search::PipelineOptions pipeline;
  pipeline.stages = 2;
  pipeline.mesh = sharding::DeviceMesh({2});
  const auto device = cost::load_device_model("h100");
  const std::string free = spec_of_it(search_stages(graph, device, 4, options, pipeline));
  for (const char* spec : {"S0R", "RS0", "RR"}) {
    const auto pinned = sharding::TensorShardSpec::parse(spec);
    if (free == spec) continue;
    options.pins = {{"block/*", {}, {{pinned}}, {}}};
    CHECK(spec_of_it(search_stages(graph, device, 4, options, pipeline)) == free);
    options.pins.push_back({"block/w3", {}, {{pinned}}, {}});
    CHECK(spec_of_it(search_stages(graph, device, 4, options, pipeline)) == spec);
  }
}
