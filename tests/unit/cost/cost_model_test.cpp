#include "cost/cost_model.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "graph/loop_body.h"
#include "sharding/decomposition.h"
#include "unit/sharding/node_sketch.h"

using namespace autopar::sharding;
using autopar::cost::CostModel;
using autopar::cost::DeviceModel;
using autopar::cost::reduction_step;
using autopar::graph::DataType;
using autopar::graph::Graph;

namespace {

/// Round numbers: 1000 operations, 100 bytes a second; 3 seconds to launch; axes with latencies of
/// 1 and 2 seconds and 10 and 5 bytes a second.
DeviceModel slow_device() {
  DeviceModel device;
  device.name = "slow";
  device.flops_per_second = {{DataType::float32, 1000.0}, {DataType::float16, 4000.0}};
  device.memory_bytes_per_second = 100;
  device.launch_seconds = 3;
  device.memory_bytes = 1000;
  device.links = {{1, 10}, {2, 5}};
  return device;
}

OpShardSpec choice_of(const Graph& graph, const DeviceMesh& mesh, const std::string& text) {
  for (const OpShardSpec& choice : choices_of(graph, mesh)) {
    if (to_string(choice) == text) return choice;
  }
  FAIL("no choice " << text);
  return {};
}

double operator_seconds(const Graph& graph, const DeviceMesh& mesh, const std::string& text) {
  return CostModel(slow_device(), mesh)
      .operator_seconds(graph, graph.nodes[0], rule_of(graph), choice_of(graph, mesh, text));
}

/// One after which a dimension is split less or, scattered, more; an all-to-all has one of each.
ReshardStep step(StepKind kind, std::vector<int> axes, const char* before, const char* after) {
  ReshardStep made{.kind = kind,
                   .mesh_axes = std::move(axes),
                   .before = TensorShardSpec::parse(before),
                   .after = TensorShardSpec::parse(after)};
  for (std::size_t d = 0; d < made.before.dims.size(); ++d) {
    const auto from = made.before.dims[d].size();
    const auto to = made.after.dims[d].size();
    if (from == to) continue;
    (kind == StepKind::all_to_all && from < to ? made.split_dim : made.dim) = static_cast<int>(d);
  }
  return made;
}

autopar::graph::Value tensor(const Shape& shape, const char* name = "x") {
  return {name, DataType::float32, shape, {}};
}

Graph product(std::int64_t m, std::int64_t k, std::int64_t n, DataType type = DataType::float32) {
  return sketch("MatMul", {of({m, k}, type), of({k, n}, type)}, {of({m, n}, type)});
}

}  // namespace

TEST_CASE("a product takes its arithmetic where that is the longer") {
  const DeviceMesh mesh({2});
  // 2 * 10 * 20 * 30 operations at 1000 a second; (200 + 600 + 300) * 4 bytes at 100 a second.
  CHECK(operator_seconds(product(10, 20, 30), mesh, "RR,RR->RR") == Approx(3 + 44.0));
  CHECK(operator_seconds(product(100, 100, 100), mesh, "RR,RR->RR") == Approx(3 + 2000.0));
  // Half of the sum: arithmetic halves. Half of an odd number of rows: the larger half.
  CHECK(operator_seconds(product(100, 100, 100), mesh, "RS0,S0R->RR all-reduce") ==
        Approx(3 + 1000.0));
  CHECK(operator_seconds(product(101, 100, 100), mesh, "S0R,RR->S0R") == Approx(3 + 1020.0));
}

TEST_CASE("a loop takes its body's time so often as it has rounds, on any number of devices") {
  auto body = std::make_shared<autopar::graph::LoopBody>();
  body->graph = product(10, 20, 30);
  Graph graph;
  const auto trips = [&](std::int64_t count) {
    return graph.add_constant("trips", autopar::graph::Tensor::of_int64({}, {&count, 1}));
  };
  graph.nodes.push_back({"l", "Loop", "", {trips(7), autopar::graph::no_value}, {}, {}, body});
  const auto seconds = [&] {
    const auto rule = replicated_rule(graph, graph.nodes[0]);
    const CostModel model(slow_device(), DeviceMesh({2}));
    const auto whole =
        enumerate_op_shard_specs(rule, DeviceMesh({2}), input_shapes(graph, graph.nodes[0]), {})
            .front();
    CHECK(model.least_operator_seconds(2, graph, graph.nodes[0], rule, whole) ==
          model.operator_seconds(graph, graph.nodes[0], rule, whole));
    return model.operator_seconds(graph, graph.nodes[0], rule, whole);
  };
  const double round = 3 + 44;
  CHECK(seconds() == Approx(3 + 7 * round));
  graph.nodes[0].inputs[0] = trips(0);
  CHECK(seconds() == Approx(3));
  // What only the run tells, and the greatest integer, which says as much.
  graph.nodes[0].inputs[0] = trips(std::numeric_limits<std::int64_t>::max());
  CHECK(seconds() == Approx(3 + autopar::graph::assumed_rounds * round));
  graph.nodes[0].inputs[0] = autopar::graph::no_value;
  CHECK(seconds() == Approx(3 + autopar::graph::assumed_rounds * round));
}

TEST_CASE("arithmetic has the rate of its type") {
  const DeviceMesh mesh({2});
  CHECK(operator_seconds(product(100, 100, 100, DataType::float16), mesh, "RR,RR->RR") ==
        Approx(3 + std::max(2e6 / 4000, 6e4 / 100)));
  CHECK(operator_seconds(product(100, 100, 100, DataType::bfloat16), mesh, "RR,RR->RR") ==
        Approx(3 + 2e6 / 1000));
}

TEST_CASE("a convolution's arithmetic counts its outputs' places and its kernel's") {
  const Graph conv = sketch("Conv", {of({1, 8, 34}), of({64, 8, 3})}, {of({1, 64, 32})});
  // 2 * 8 * 64 * 32 * 3 operations; (272 + 1536 + 2048) * 4 bytes.
  CHECK(operator_seconds(conv, DeviceMesh({2}), "RRR,RRR->RRR") ==
        Approx(3 + std::max(98.304, 154.24)));
  const Graph wide = sketch("Conv", {of({1, 64, 34}), of({64, 64, 3})}, {of({1, 64, 32})});
  CHECK(operator_seconds(wide, DeviceMesh({2}), "RRR,RRR->RRR") == Approx(3 + 786.432));
}

TEST_CASE("all else is bound by memory: inputs and outputs, once each") {
  const DeviceMesh mesh({2});
  const Graph add = sketch("Add", {of({10, 5}), of({5})}, {of({10, 5})});
  CHECK(operator_seconds(add, mesh, "RR,R->RR") == Approx(3 + (50 + 5 + 50) * 4 / 100.0));
  CHECK(operator_seconds(add, mesh, "S0R,R->S0R") == Approx(3 + (25 + 5 + 25) * 4 / 100.0));
  CHECK(operator_seconds(add, mesh, "RS0,S0->RS0") == Approx(3 + (30 + 3 + 30) * 4 / 100.0));
}

TEST_CASE("of a table no more is read than is found") {
  const Graph gather = sketch("Gather", {of({1000, 5}), of({2}, DataType::int64)}, {of({2, 5})});
  CHECK(operator_seconds(gather, DeviceMesh({2}), "RR,R->RR") ==
        Approx(3 + (40 + 16 + 40) / 100.0));
}

TEST_CASE("a view costs nothing") {
  const Graph reshape = sketch("Reshape", {of({4, 6}), ints({24})}, {of({24})});
  CHECK(operator_seconds(reshape, DeviceMesh({2}), "RR,R->R") == 0);
}

TEST_CASE("collectives cost what their formulas say") {
  const DeviceMesh mesh({4});
  const CostModel cost(slow_device(), mesh);
  const auto seconds = [&](StepKind kind, const char* before, const char* after) {
    return cost.step_seconds(step(kind, {0}, before, after), {8, 10}, DataType::float32);
  };
  // 80 elements of 4 bytes; latency 1, 10 bytes a second, 4 devices.
  CHECK(seconds(StepKind::all_reduce, "RR+P0", "RR") == Approx(2 * 3 * (1 + 320 / 40.0)));
  CHECK(seconds(StepKind::all_gather, "S0R", "RR") == Approx(3 * (1 + 320 / 40.0)));
  CHECK(seconds(StepKind::reduce_scatter, "RR+P0", "S0R") == Approx(3 * (1 + 320 / 40.0)));
  // The local tensor before the exchange: a quarter.
  const double packing = 3 + 2 * 80 / 100.0;
  CHECK(seconds(StepKind::all_to_all, "S0R", "RS0") == Approx(3 * (1 + 80 / 160.0) + packing));
  // A copy of the local quarter, read and written, and a launch.
  CHECK(seconds(StepKind::slice, "RR", "S0R") == Approx(3 + 2 * 80 / 100.0));
}

TEST_CASE("the largest rank's share is priced") {
  const CostModel cost(slow_device(), DeviceMesh({4}));
  // 5 rows over 4 devices: the first has 2, so the exchange is of 20 elements.
  CHECK(cost.step_seconds(step(StepKind::all_to_all, {0}, "S0R", "RS0"), {5, 10},
                          DataType::float32) == Approx(3 * (1 + 80 / 160.0) + 3 + 2 * 80 / 100.0));
}

TEST_CASE("blocks that are not in one piece are packed before a collective or unpacked behind it") {
  DeviceModel device = slow_device();
  device.channels_last =
      std::make_shared<const autopar::cost::ValueNames>(autopar::cost::ValueNames{"image"});
  const CostModel cost(device, DeviceMesh({2}));
  const auto packing = [&](StepKind kind, const char* before, const char* after, const Shape& shape,
                           const char* name = "x") {
    const autopar::graph::Value value = tensor(shape, name);
    const ReshardStep moved = step(kind, {0}, before, after);
    const double bytes =
        static_cast<double>(payload_bytes(moved, shape, value.type, cost.mesh(), 0));
    const double exchange = kind == StepKind::all_to_all ? bytes / 40 : bytes / 20;
    return cost.step_seconds(moved, value) - (1 + exchange);
  };
  const auto copy = [](double elements) { return Approx(3 + 2 * 4 * elements / 100); };
  const auto nothing = Approx(0).margin(1e-9);
  CHECK(packing(StepKind::all_gather, "S0R", "RR", {4, 6}) == nothing);
  CHECK(packing(StepKind::all_gather, "RS0", "RR", {4, 6}) == copy(24));
  CHECK(packing(StepKind::all_gather, "RS0", "RR", {1, 6}) == nothing);
  CHECK(packing(StepKind::reduce_scatter, "RR+P0", "RS0", {4, 6}) == copy(24));
  CHECK(packing(StepKind::reduce_scatter, "RR+P0", "S0R", {4, 6}) == nothing);
  // Halves of both dimensions: unpacked in one direction, packed in the other.
  CHECK(packing(StepKind::all_to_all, "S0R", "RS0", {4, 6}) == copy(12));
  CHECK(packing(StepKind::all_to_all, "RS0", "S0R", {4, 6}) == copy(12));
  CHECK(packing(StepKind::all_to_all, "RS0R", "RRS0", {3, 4, 6}) ==
        Approx(2 * (3 + 2 * 36 * 4 / 100.0)));

  const Shape one_image{1, 8, 4, 6};
  CHECK(packing(StepKind::all_gather, "RS0RR", "RRRR", one_image) == nothing);
  CHECK(packing(StepKind::all_gather, "RS0RR", "RRRR", one_image, "image") == copy(192));
  CHECK(packing(StepKind::all_gather, "RRS0R", "RRRR", one_image) == copy(192));
  CHECK(packing(StepKind::all_gather, "RRS0R", "RRRR", one_image, "image") == nothing);
  CHECK(packing(StepKind::reduce_scatter, "RRRR+P0", "RRRS0", one_image, "image") == copy(192));
  CHECK(packing(StepKind::all_gather, "RRS0R", "RRRR", {2, 8, 4, 6}, "image") == copy(384));
  CHECK(packing(StepKind::all_gather, "RS0RR", "RRRR", {1, 8, 1, 1}, "image") == nothing);
}

TEST_CASE("each mesh axis has its link, several the slowest's numbers") {
  const DeviceMesh mesh({2, 3});
  const CostModel cost(slow_device(), mesh);
  const auto gather = [&](std::vector<int> axes, const char* before, const char* after) {
    return cost.step_seconds(step(StepKind::all_gather, std::move(axes), before, after), {60},
                             DataType::float32);
  };
  CHECK(gather({0}, "S0", "R") == Approx(1 * (1 + 240 / 20.0)));
  CHECK(gather({1}, "S1", "R") == Approx(2 * (2 + 240 / 15.0)));
  CHECK(gather({0, 1}, "S01", "R") == Approx(5 * (2 + 240 / 30.0)));
  CHECK(gather({1}, "S01", "S0") == Approx(2 * (2 + 120 / 15.0)));
}

TEST_CASE("a group of one device communicates nothing") {
  const CostModel cost(slow_device(), DeviceMesh({1}));
  CHECK(cost.step_seconds(step(StepKind::all_reduce, {0}, "R+P0", "R"), {8}, DataType::float32) ==
        0);
}

TEST_CASE("a strategy's reduction is the step that it stands for") {
  const DeviceMesh mesh({2, 2});
  const Graph graph = product(8, 8, 8);
  const auto reduction = [&](const char* text) {
    return reduction_step(choice_of(graph, mesh, text), 0);
  };
  CHECK_FALSE(reduction("RR,RR->RR").has_value());
  const auto reduce = reduction("S0S1,S1R->S0R all-reduce");
  REQUIRE(reduce.has_value());
  CHECK(reduce->kind == StepKind::all_reduce);
  CHECK(reduce->mesh_axes == std::vector<int>{1});
  CHECK(to_string(reduce->before) == "S0R+P1");
  CHECK(to_string(reduce->after) == "S0R");
  const auto scatter = reduction("S0S1,S1R->S0S1 reduce-scatter");
  REQUIRE(scatter.has_value());
  CHECK(scatter->kind == StepKind::reduce_scatter);
  CHECK(scatter->dim == 1);
  CHECK(to_string(scatter->after) == "S0S1");
}

TEST_CASE("reductions are priced as steps on their output") {
  const DeviceMesh mesh({4});
  const CostModel cost(slow_device(), mesh);
  const Graph graph = product(8, 8, 10);
  const auto seconds = [&](const char* text) {
    return cost.reduction_seconds(graph, graph.nodes[0], *sharding_rule(graph, graph.nodes[0]),
                                  choice_of(graph, mesh, text));
  };
  CHECK(seconds("RR,RR->RR") == 0);
  CHECK(seconds("RS0,S0R->RR all-reduce") == Approx(2 * 3 * (1 + 320 / 40.0)));
  CHECK(seconds("RS0,S0R->S0R reduce-scatter") == Approx(3 * (1 + 320 / 40.0)));
  const double packing = 3 + 2 * 320 / 100.0;
  CHECK(seconds("RS0,S0R->RS0 reduce-scatter") == Approx(3 * (1 + 320 / 40.0) + packing));
}

TEST_CASE("a decomposed operator costs what its parts and their reductions do") {
  const DeviceMesh mesh({2});
  DeviceModel device = slow_device();
  const Graph graph = sketch("Softmax", {of({3, 8})}, {of({3, 8})});
  const ShardingRule rule = rule_of(graph);
  const OpShardSpec choice = choice_of(graph, mesh, "RS0->RS0");
  const auto seconds_of = [&](const Graph& node, const char* text) {
    return CostModel(device, mesh)
        .operator_seconds(node, node.nodes[0], rule_of(node), choice_of(node, mesh, text));
  };
  const double parts =
      seconds_of(sketch("ReduceMax", {of({3, 8}), ints({1})}, {of({3, 1})}),
                 "RS0,R->RR all-reduce") +
      seconds_of(sketch("Sub", {of({3, 8}), of({3, 1})}, {of({3, 8})}), "RS0,RR->RS0") +
      seconds_of(sketch("Exp", {of({3, 8})}, {of({3, 8})}), "RS0->RS0") +
      seconds_of(sketch("ReduceSum", {of({3, 8}), ints({1})}, {of({3, 1})}),
                 "RS0,R->RR all-reduce") +
      seconds_of(sketch("Div", {of({3, 8}), of({3, 1})}, {of({3, 8})}), "RS0,RR->RS0");
  CHECK(seconds_of(graph, "RS0->RS0") == Approx(parts));
  const CostModel cost(device, mesh);
  CHECK(cost.reduction_seconds(graph, graph.nodes[0], rule, choice) ==
        Approx(2 * cost.step_seconds(step(StepKind::all_reduce, {0}, "RR+P0", "RR"), {3, 1},
                                     DataType::float32)));
  // Bounds rely on its share of the operator as one.
  device.element_seconds["Softmax"] = 1000;
  CHECK(seconds_of(graph, "RS0->RS0") >= seconds_of(graph, "RR->RR") / 2);
  // What fuses with the operator as one has to be stored for the others.
  device = slow_device();
  device.is_fusing = true;
  device.fused =
      std::make_shared<const autopar::cost::ValueNames>(autopar::cost::ValueNames{"in0", "out0"});
  CHECK(seconds_of(graph, "RS0->RS0") == Approx(parts));
}

TEST_CASE("splitting never makes an operator dearer, nor more data a step cheaper") {
  const DeviceMesh mesh({2, 2});
  const CostModel cost(slow_device(), mesh);
  for (const Graph& graph :
       {product(7, 9, 5), sketch("Softmax", {of({7, 9})}, {of({7, 9})}),
        sketch("Gather", {of({50, 6}), of({9}, DataType::int64)}, {of({9, 6})})}) {
    const auto rule = rule_of(graph);
    const auto choices = choices_of(graph, mesh);
    const double whole = cost.operator_seconds(graph, graph.nodes[0], rule, choices.front());
    for (const OpShardSpec& choice : choices) {
      if (splits_normalized(rule, choice.factor_axes)) continue;
      CAPTURE(to_string(choice));
      CHECK(cost.operator_seconds(graph, graph.nodes[0], rule, choice) <= whole);
    }
  }
  double previous = 0;
  for (std::int64_t size = 0; size < 50; ++size) {
    const double seconds =
        cost.step_seconds(step(StepKind::all_gather, {0}, "S0", "R"), {size}, DataType::float32);
    CHECK(seconds > previous);
    previous = seconds;
  }
}

TEST_CASE("the step price outlives its cost model") {
  StepPrice price;
  {
    const CostModel cost(slow_device(), DeviceMesh({4}));
    price = cost.step_price();
  }
  CHECK(price(step(StepKind::all_gather, {0}, "S0R", "RR"), {8, 10}, DataType::float32) ==
        Approx(3 * (1 + 320 / 40.0)));
}

TEST_CASE("connections under the formulas are the textbook's") {
  const DeviceMesh mesh({4});
  const CostModel cost(autopar::cost::load_device_model("h100"), mesh);
  const auto kinds = [&](const char* src, const char* dst) {
    std::string text;
    for (const ReshardStep& one : connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst),
                                          {1024, 1024}, DataType::float32, mesh, cost.step_price())
                                      .steps) {
      text += std::string(name_of(one.kind)) + ";";
    }
    return text;
  };
  CHECK(kinds("S0R", "RS0") == "all-to-all;");
  CHECK(kinds("RR+P0", "RR") == "all-reduce;");
  CHECK(kinds("RR+P0", "S0R") == "reduce-scatter;");
  CHECK(kinds("RR", "S0R") == "slice;");
}

TEST_CASE("where devices stand in nodes, an axis that leaves a node takes the link between nodes") {
  DeviceModel device = slow_device();
  device.gpus_per_node = 4;
  // 10 bytes a second within a node and 5 between nodes, latencies 1 and 2.
  const double within = 1 + 320 / (2 * 10.0);
  const double between = 2 + 320 / (2 * 5.0);
  const auto gather_over = [&](const std::vector<int>& sizes, int axis) {
    const CostModel cost(device, DeviceMesh(sizes));
    const std::string split = "S" + std::to_string(axis) + "R";
    return cost.step_seconds(step(StepKind::all_gather, {axis}, split.c_str(), "RR"), {8, 10},
                             DataType::float32);
  };
  CHECK(gather_over({2}, 0) == Approx(within));
  CHECK(gather_over({2, 2}, 0) == Approx(within));
  CHECK(gather_over({2, 4}, 0) == Approx(between));
  CHECK(gather_over({2, 2, 2}, 0) == Approx(between));
  CHECK(gather_over({2, 2, 2}, 1) == Approx(within));
  CHECK(gather_over({4, 2}, 1) == Approx(within));
  CHECK(gather_over({3, 2}, 1) == Approx(within));
  CHECK(gather_over({3, 2}, 0) > gather_over({4}, 0));  // ranks 0, 2 and 4
  CHECK(gather_over({1, 2, 3}, 1) == Approx(between));  // ranks 2 and 5
  const CostModel both(device, DeviceMesh({2, 4}));
  CHECK(both.step_seconds(step(StepKind::all_gather, {0, 1}, "S01R", "RR"), {8, 10},
                          DataType::float32) == Approx(7 * (2 + 320 / (8 * 5.0))));
}

namespace {

/// Nodes of four: 100 bytes a second within them and 5 between, latencies 1 and 2.
DeviceModel slow_between_nodes() {
  DeviceModel device = slow_device();
  device.gpus_per_node = 4;
  device.links = {{1, 100}, {2, 5}};
  return device;
}

std::string text_of(const Connection& chain) {
  std::string text;
  for (const ReshardStep& one : chain.steps) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(one.kind)) + " ";
    for (const int axis : one.mesh_axes) text += std::to_string(axis);
  }
  return text;
}

}  // namespace

TEST_CASE("symmetric axes are those of one size along like links") {
  const auto axes_of = [](const char* device, std::vector<int> sizes) {
    return CostModel(autopar::cost::load_device_model(device), DeviceMesh(std::move(sizes)))
        .symmetric_axes();
  };
  CHECK(axes_of("h200", {2, 4, 2}) == SymmetricAxes{0, 1, 0});
  CHECK(axes_of("h200", {2, 2, 2, 2}) == SymmetricAxes{0, 0, 0, 0});
  CHECK(axes_of("h200", {2, 4}).empty());
  CHECK(axes_of("h100-cluster", {2, 2, 2, 2}) == SymmetricAxes{0, 1, 1, 1});  // of 8
}

TEST_CASE("a reduction that crosses a slow link goes within nodes first where that is cheaper") {
  const Graph graph = product(8, 16, 16);  // makes 512 bytes
  const auto chain = [&](const std::vector<int>& mesh, const char* text) {
    DeviceModel device = slow_between_nodes();
    device.memory_bytes_per_second = 1e9;  // so that packing takes a launch alone
    device.launch_seconds = 0.001;
    const CostModel cost(device, DeviceMesh(mesh));
    return cost.reduction(choice_of(graph, cost.mesh(), text), 0, tensor({8, 16}));
  };
  const double within = 3 * (1 + 512 / (4 * 100.0));
  const double packing = 0.001;
  const double slice = 0.001;
  const Connection sum = chain({2, 4}, "RS01,S01R->RR all-reduce");
  CHECK(text_of(sum) == "reduce-scatter 1, all-reduce 0, all-gather 1");
  CHECK(sum.seconds == Approx(within + 2 * (2 + 128 / (2 * 5.0)) + within));
  // One dimension is split within a node and the other between them, until the last step.
  const Connection scattered = chain({2, 4}, "RS01,S01R->S01R reduce-scatter");
  CHECK(text_of(scattered) == "reduce-scatter 1, reduce-scatter 0, all-to-all 1");
  CHECK(scattered.seconds ==
        Approx(within + 2 + 128 / (2 * 5.0) + 3 * (1 + 64 / (4 * 4 * 100.0)) + packing));
  // All of a node have the same terms: each sends a part.
  const Connection parts = chain({2, 4}, "RS0,S0R->RR all-reduce");
  CHECK(text_of(parts) == "slice 1, all-reduce 0, all-gather 1");
  CHECK(parts.seconds == Approx(slice + 2 * (2 + 128 / (2 * 5.0)) + within));
  CHECK(text_of(chain({2, 4}, "S1S0,S0R->S1R all-reduce")) == "all-reduce 0");
  CHECK(text_of(chain({2, 4}, "S0S1,S1R->S0R all-reduce")) == "all-reduce 1");
  CHECK(text_of(chain({2, 2, 4}, "RS012,S012R->RR all-reduce")) ==
        "reduce-scatter 2, reduce-scatter 1, all-reduce 0, all-gather 1, all-gather 2");
  CHECK(text_of(chain({8}, "RS0,S0R->RR all-reduce")) == "all-reduce 0");
  CHECK(text_of(chain({2, 4}, "RR,RR->RR")).empty());
}

TEST_CASE("a number, which no axis can split, is reduced level by level") {
  const Graph graph = sketch("ReduceSum", {of({16, 1}), ints({0})}, {of({1, 1})});
  const CostModel cost(slow_between_nodes(), DeviceMesh({2, 4}));
  const Connection chain =
      cost.reduction(choice_of(graph, cost.mesh(), "S01R,R->RR all-reduce"), 0, tensor({1, 1}));
  CHECK(text_of(chain) == "all-reduce 0, all-reduce 1");
  CHECK(chain.seconds == Approx(2 * (2 + 4 / (2 * 5.0)) + 6 * (1 + 4 / (4 * 100.0))));
}

TEST_CASE("over links that are nearly alike a reduction is one collective") {
  const Graph graph = product(8, 16, 16);
  DeviceModel device = slow_device();
  for (const auto& links : {std::vector<autopar::cost::Link>{{1, 10}}, {{1, 10}, {1, 5.1}}}) {
    device.links = links;
    const CostModel cost(device, DeviceMesh({2, 4}));
    const Connection direct = cost.reduction(
        choice_of(graph, cost.mesh(), "RS01,S01R->RR all-reduce"), 0, tensor({8, 16}));
    CHECK(text_of(direct) == "all-reduce 01");
    CHECK(direct.seconds ==
          Approx(14 * (1 + 512 / (8 * cost.device().links.back().bytes_per_second))));
  }
}

TEST_CASE("no reduction costs more than its one collective, nor than the textbook's three") {
  const DeviceMesh mesh({2, 4});
  const CostModel cost(slow_between_nodes(), mesh);
  std::size_t dearer = 0;
  for (const auto& [m, n] : {std::pair{1, 1}, {1, 7}, {8, 16}, {5, 3}, {64, 2}, {1, 400}}) {
    const Graph graph = product(m, 8, n);
    const Shape shape{m, n};
    for (const OpShardSpec& choice : choices_of(graph, mesh)) {
      const auto direct = reduction_step(choice, 0);
      if (!direct) continue;
      CAPTURE(m, n, to_string(choice));
      const Connection chain = cost.reduction(choice, 0, tensor(shape));
      const double alone = cost.step_seconds(*direct, shape, DataType::float32);
      CHECK(chain.seconds <= alone);
      if (chain.seconds < alone) ++dearer;
      CHECK(chain.steps.front().before == choice.computed[0]);
      CHECK(chain.steps.back().after == choice.outputs[0]);
      double sum = 0;
      for (const ReshardStep& one : chain.steps)
        sum += cost.step_seconds(one, shape, DataType::float32);
      CHECK(sum == Approx(chain.seconds));
      if (direct->kind != StepKind::all_reduce || direct->mesh_axes.size() < 2) continue;
      for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t share = (shape[d] + 3) / 4;
        if (shape[d] < 2) continue;
        const double bytes = 4.0 * m * n;
        CHECK(chain.seconds <= 6 * (1 + bytes / 400) +
                                   2 * (2 + bytes / static_cast<double>(shape[d]) *
                                                static_cast<double>(share) / 10) +
                                   (d == 1 && m > 1 ? 2 * (3 + 2 * bytes / 100) : 0) + 1e-9);
      }
    }
  }
  CHECK(dearer > 10);
}

TEST_CASE("a batch of products is as fast an operation as one of them") {
  DeviceModel device = slow_device();
  device.flops_per_second = {
      {DataType::float32, autopar::cost::SizedRate({{2e3, 1000}, {2e6, 8000}})}};
  const CostModel cost(device, DeviceMesh({2}));
  const auto seconds = [&](const Graph& graph, const char* text) {
    return cost.operator_seconds(graph, graph.nodes[0], rule_of(graph),
                                 choice_of(graph, cost.mesh(), text));
  };
  const Graph batch = sketch("MatMul", {of({50, 10, 10}), of({50, 10, 10})}, {of({50, 10, 10})});
  CHECK(seconds(batch, "RRR,RRR->RRR") == Approx(3 + 600.0));  // 15,000 elements of 4 bytes
  const Graph one = product(100, 100, 100);
  CHECK(seconds(one, "RR,RR->RR") == Approx(3 + (30000 * 4 / 100.0)));
  device.memory_bytes_per_second = 1e6;
  const CostModel quick_memory(device, DeviceMesh({1}));
  CHECK(quick_memory.operator_seconds(batch, batch.nodes[0], rule_of(batch),
                                      choice_of(batch, quick_memory.mesh(), "RRR,RRR->RRR")) ==
        Approx(3 + 50 * 2000 / 1000.0));
  CHECK(quick_memory.operator_seconds(one, one.nodes[0], rule_of(one),
                                      choice_of(one, quick_memory.mesh(), "RR,RR->RR")) ==
        Approx(3 + 2e6 / 8000.0));
}

TEST_CASE("operators that compute much take so much an element of their largest tensor") {
  DeviceModel device = slow_device();
  device.element_seconds = {{"Softmax", 1.0}, {"Tanh", 0.001}};
  const DeviceMesh mesh({2});
  const CostModel cost(device, mesh);
  const auto seconds = [&](const Graph& graph, const char* text) {
    return cost.operator_seconds(graph, graph.nodes[0], rule_of(graph),
                                 choice_of(graph, mesh, text));
  };
  const Graph softmax = sketch("Softmax", {of({10, 5})}, {of({10, 5})});
  CHECK(seconds(softmax, "RR->RR") == Approx(3 + 50));
  CHECK(seconds(softmax, "S0R->S0R") == Approx(3 + 25));
  const Graph tanh = sketch("Tanh", {of({10, 5})}, {of({10, 5})});
  CHECK(seconds(tanh, "RR->RR") == Approx(3 + 4));  // memory: 400 bytes
  const Graph neg = sketch("Neg", {of({10, 5})}, {of({10, 5})});
  CHECK(cost.price_key(neg, neg.nodes[0]) != cost.price_key(tanh, tanh.nodes[0]));

  Graph custom = softmax;  // of the same name, and nothing else
  custom.nodes[0].domain = "com.example";
  const ShardingRule whole = replicated_rule(custom, custom.nodes[0]);
  const auto choices = enumerate_op_shard_specs(custom, custom.nodes[0], whole, mesh);
  CHECK(cost.operator_seconds(custom, custom.nodes[0], whole, choices.front()) == Approx(3 + 4));
}

TEST_CASE("what a runtime fuses is neither stored nor launched") {
  DeviceModel device = slow_device();
  device.element_seconds = {{"Tanh", 0.5}};
  const auto seconds = [&](const std::set<std::string, std::less<>>& fused, bool is_fusing) {
    device.fused = std::make_shared<const autopar::cost::ValueNames>(fused);
    device.is_fusing = is_fusing;
    const CostModel cost(device, DeviceMesh({1}));
    const Graph tanh = sketch("Tanh", {of({10, 5})}, {of({10, 5})});
    return cost.operator_seconds(tanh, tanh.nodes[0], rule_of(tanh),
                                 choice_of(tanh, cost.mesh(), "RR->RR"));
  };
  CHECK(seconds({}, true) == Approx(3 + 25));
  CHECK(seconds({"out0"}, true) == Approx(25));
  CHECK(seconds({"out0"}, false) == Approx(3 + 25));
  device.element_seconds.clear();
  CHECK(seconds({"in0"}, true) == Approx(3 + 2));  // it writes alone
  CHECK(seconds({"out0"}, true) == Approx(2));     // it reads alone
  CHECK(seconds({"in0", "out0"}, true) == 0);
}

TEST_CASE("a collective that was measured by itself has its own speed") {
  DeviceModel device = slow_device();
  device.links[0].by_kind[StepKind::all_reduce] = {4, 20};
  const CostModel cost(device, DeviceMesh({2}));
  CHECK(cost.step_seconds(step(StepKind::all_reduce, {0}, "RR+P0", "RR"), {8, 10},
                          DataType::float32) == Approx(2 * (4 + 320 / (2 * 20.0))));
  CHECK(cost.step_seconds(step(StepKind::all_gather, {0}, "S0R", "RR"), {8, 10},
                          DataType::float32) == Approx(1 + 320 / (2 * 10.0)));
}

TEST_CASE("no strategy on n devices takes less than the bound, whatever the rates by size") {
  DeviceModel device = slow_device();
  device.flops_per_second = {
      {DataType::float32,
       autopar::cost::SizedRate({{100, 10}, {1000, 90}, {5000, 40}, {1e5, 60}})}};
  // Half of the bytes may take much less than half of the time: caches.
  device.memory_bytes_per_second = autopar::cost::SizedRate({{100, 4000}, {2000, 500}, {1e4, 20}});
  device.element_seconds = {{"Softmax", 0.3}};
  for (const Graph& graph :
       {product(24, 40, 16), product(7, 9, 5), sketch("Softmax", {of({12, 9})}, {of({12, 9})}),
        sketch("Add", {of({30, 20}), of({20})}, {of({30, 20})}),
        sketch("MatMul", {of({6, 8, 10}), of({6, 10, 12})}, {of({6, 8, 12})}),
        sketch("Gather", {of({50, 6}), of({9}, DataType::int64)}, {of({9, 6})})}) {
    const auto rule = rule_of(graph);
    for (const std::vector<int>& sizes : {std::vector{1}, {2}, {3}, {2, 2}, {4, 2}, {8}}) {
      const DeviceMesh mesh(sizes);
      const CostModel alone(device, DeviceMesh({1}));
      const double least = alone.least_operator_seconds(
          mesh.num_devices(), graph, graph.nodes[0], rule, choices_of(graph, alone.mesh()).front());
      const CostModel cost(device, mesh);
      for (const OpShardSpec& choice : choices_of(graph, mesh)) {
        const double seconds = cost.operator_seconds(graph, graph.nodes[0], rule, choice);
        CAPTURE(to_string(choice));
        CHECK(least <= seconds * (1 + 1e-12));
        if (mesh.num_devices() == 1) CHECK(least == Approx(seconds));
      }
    }
  }
}
