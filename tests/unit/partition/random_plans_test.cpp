// The property that everything rests on: whatever strategy each operator has, the ranks together
// compute what the whole graph computes, and communicate what was predicted.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <exception>
#include <random>
#include <thread>

#include "cost/cost_model.h"
#include "graph/arena.h"
#include "partition/lowering.h"
#include "partition/rank_graph.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/executable.h"

using namespace autopar;
using graph::Graph;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;
using Random = std::mt19937;

namespace {

int pick(Random& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

Tensor random_floats(Random& random, Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return Tensor::of_float(std::move(shape), values);
}

/// Grows a random graph of small operators, sizes odd enough that no mesh divides them all.
class RandomGraph {
 public:
  explicit RandomGraph(Random& random) : random_(random) { graph_.opsets[""] = 18; }

  Graph grow(int operators) {
    const Shape first{pick(random_, 1, 3), pick(random_, 1, 7), 4 * pick(random_, 1, 3)};
    tensors_.push_back(add_input("x", first));
    for (int i = 0; i < operators; ++i) append_some_operator();
    graph_.outputs = {tensors_.back()};
    if (tensors_.size() > 3 && tensors_[2] != tensors_.back() && tensors_[2] != tensors_[0]) {
      graph_.outputs.push_back(tensors_[2]);
    }
    return graph_;
  }

 private:
  ValueId add_input(const std::string& name, const Shape& shape) {
    const ValueId id = graph_.add_value({name, graph::DataType::float32, shape, std::nullopt});
    graph_.inputs.push_back(id);
    return id;
  }

  ValueId weight(const Shape& shape) {
    return graph_.add_constant("w" + std::to_string(graph_.values.size()),
                               random_floats(random_, shape));
  }

  ValueId ints(std::vector<std::int64_t> values) {
    return graph_.add_constant(
        "i" + std::to_string(graph_.values.size()),
        Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
  }

  ValueId append(const std::string& op_type, std::vector<ValueId> inputs, const Shape& shape,
                 std::map<std::string, graph::Attribute> attributes = {}) {
    const std::string name = op_type + std::to_string(graph_.nodes.size());
    const ValueId output =
        graph_.add_value({name + ":0", graph::DataType::float32, shape, std::nullopt});
    graph_.nodes.push_back({name, op_type, "", std::move(inputs), {output}, std::move(attributes)});
    tensors_.push_back(output);
    return output;
  }

  void append_some_operator() {
    const ValueId x = pick(random_, 0, 2) == 0
                          ? tensors_[static_cast<std::size_t>(
                                pick(random_, 0, static_cast<int>(tensors_.size()) - 1))]
                          : tensors_.back();
    const Shape shape = graph_.value(x).shape;
    const std::int64_t last = shape.back();
    const auto rank = static_cast<std::int64_t>(shape.size());
    switch (pick(random_, 0, 10)) {
      case 0:
      case 1: {
        const std::int64_t n = 4 * pick(random_, 1, 3);
        Shape result = shape;
        result.back() = n;
        append("MatMul", {x, weight({last, n})}, result);
        break;
      }
      case 2:
        append("Add", {x, weight({last})}, shape);
        break;
      case 3:
        append(pick(random_, 0, 1) == 0 ? "Relu" : "Tanh", {x}, shape);
        break;
      case 4:
        append("Softmax", {x}, shape, {{"axis", std::int64_t{-1}}});
        break;
      case 5:
        append("LayerNormalization", {x, weight({last}), weight({last})}, shape,
               {{"axis", std::int64_t{-1}}});
        break;
      case 6:
        append("Mul", {x, x}, shape);
        append("Add", {x, tensors_.back()}, shape);
        break;
      case 7: {
        std::vector<std::int64_t> perm(static_cast<std::size_t>(rank));
        for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
        std::ranges::shuffle(perm, random_);
        Shape result;
        for (const std::int64_t dim : perm) result.push_back(shape[static_cast<std::size_t>(dim)]);
        append("Transpose", {x}, result, {{"perm", perm}});
        break;
      }
      case 8: {
        if (rank > 3 || last % 4 != 0) return append_reduction(x, shape);
        Shape heads = shape;
        heads.back() = 4;
        heads.push_back(last / 4);
        append("Reshape", {x, ints({heads.begin(), heads.end()})}, heads);
        break;
      }
      case 9:
        append_reduction(x, shape);
        break;
      default: {
        if (rank < 3) return append_reduction(x, shape);
        Shape flat{shape[0] * shape[1]};
        flat.insert(flat.end(), shape.begin() + 2, shape.end());
        append("Reshape", {x, ints({flat.begin(), flat.end()})}, flat);
        break;
      }
    }
  }

  void append_reduction(ValueId x, Shape shape) {
    static constexpr const char* reductions[] = {"ReduceSum", "ReduceMax", "ReduceMean"};
    const int dim = pick(random_, 0, static_cast<int>(shape.size()) - 1);
    shape[static_cast<std::size_t>(dim)] = 1;
    append(reductions[pick(random_, 0, 2)], {x, ints({dim})}, shape,
           {{"keepdims", std::int64_t{1}}});
  }

  Random& random_;
  Graph graph_;
  std::vector<ValueId> tensors_;
};

template <typename T>
const T& any_of(Random& random, const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(pick(random, 0, static_cast<int>(choices.size()) - 1))];
}

/// A valid strategy for every operator, chosen blindly.
search::Plan random_plan(Random& random, const Graph& graph, const sharding::DeviceMesh& mesh) {
  search::Plan plan;
  plan.mesh = mesh;
  for (const graph::Node& node : graph.nodes) {
    const auto rule = sharding::sharding_rule(graph, node);
    REQUIRE(rule);
    plan.operators.push_back(any_of(
        random, sharding::enumerate_op_shard_specs(*rule, mesh, sharding::input_shapes(graph, node),
                                                   sharding::output_shapes(graph, node))));
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value = static_cast<ValueId>(id);
    const bool is_input = std::ranges::find(graph.inputs, value) != graph.inputs.end();
    if (!is_input && !graph.is_constant(value)) continue;
    plan.stored.emplace(value, any_of(random, sharding::enumerate_tensor_shard_specs(
                                                  graph.value(value).shape, mesh)));
  }
  return plan;
}

void copy_in(const Tensor& tensor, const runtime::TensorView& view) {
  const Tensor local = tensor.contiguous_copy();
  REQUIRE(local.size_bytes() == view.size_bytes());
  if (view.size_bytes() > 0) std::memcpy(view.data, local.data(), local.bytes().size());
}

std::vector<float> values_of(const runtime::TensorView& view) {
  return {view.as<float>(), view.as<float>() + view.elements()};
}

std::vector<std::vector<float>> run_whole(const Graph& graph, const Tensor& input) {
  runtime::Executable executable(graph, {});
  copy_in(input, executable.input(0));
  executable.run();
  std::vector<std::vector<float>> outputs;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    outputs.push_back(values_of(executable.output(i)));
  }
  return outputs;
}

struct RankResult {
  std::vector<std::vector<float>> outputs;
  std::vector<bundle::CollectiveTotal> counted;
  std::exception_ptr error;
};

RankResult run_rank(const Graph& shard, const Tensor& local_input, runtime::Communicator& world) {
  RankResult result;
  try {
    runtime::CollectiveContext collectives(world);
    runtime::Executable executable(shard, {.threads = 1, .collectives = &collectives});
    copy_in(local_input, executable.input(0));
    executable.run();
    for (std::size_t i = 0; i < shard.outputs.size(); ++i) {
      result.outputs.push_back(values_of(executable.output(i)));
    }
    result.counted = collectives.totals();
    const std::int64_t predicted = graph::plan_arena(graph::value_lifetimes(shard)).bytes;
    if (executable.arena_bytes() > predicted) throw std::runtime_error("arena above prediction");
  } catch (...) {
    result.error = std::current_exception();
    world.abort();
  }
  return result;
}

/// Compares one rank's output with its share of the whole one.
void check_share(const std::vector<float>& whole, const Shape& shape,
                 const std::vector<graph::Range>& ranges, const std::vector<float>& local) {
  const Tensor share = Tensor::of_float(shape, whole).slice(ranges).contiguous_copy();
  const auto expected = share.values<float>();
  REQUIRE(local.size() == expected.size());
  for (std::size_t i = 0; i < local.size(); ++i) {
    REQUIRE(local[i] == Approx(expected[i]).epsilon(1e-3).margin(1e-3));
  }
}

void check_random_plan(unsigned seed, const sharding::DeviceMesh& mesh) {
  Random random(seed);
  const Graph graph = RandomGraph(random).grow(pick(random, 3, 12));
  const Tensor input = random_floats(random, graph.value(graph.inputs[0]).shape);
  const search::Plan plan = random_plan(random, graph, mesh);
  const cost::CostModel cost(cost::load_device_model("cpu"), mesh);
  const partition::Program program = partition::lower(graph, plan, cost.step_price());

  const int ranks = mesh.num_devices();
  auto worlds = runtime::make_thread_communicators(ranks, std::chrono::seconds(20));
  std::vector<RankResult> results(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const Graph shard = partition::rank_graph(graph, plan, program, rank);
      graph::check_invariants(shard);
      const auto ranges =
          sharding::local_ranges(plan.spec_of(graph, graph.inputs[0]), input.shape(), mesh, rank);
      threads.emplace_back([&results, &worlds, r, shard, local = input.slice(ranges)] {
        results[r] = run_rank(shard, local, *worlds[r]);
      });
    }
  }

  std::vector<bundle::CollectiveTotal> counted;
  for (const RankResult& result : results) {
    if (result.error) std::rethrow_exception(result.error);
    for (const auto& total : result.counted) bundle::add_collective(counted, total);
  }
  CHECK(counted == partition::collective_totals(graph, mesh, program));

  const auto whole = run_whole(graph, input);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Shape& shape = graph.value(graph.outputs[i]).shape;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto ranges =
          sharding::local_ranges(plan.spec_of(graph, graph.outputs[i]), shape, mesh, rank);
      check_share(whole[i], shape, ranges, results[static_cast<std::size_t>(rank)].outputs[i]);
    }
  }
}

}  // namespace

TEST_CASE("random strategies on random graphs compute what the whole graph does") {
  const auto mesh = GENERATE(as<std::string>{}, "1", "2", "3", "4", "7", "2x2", "2x3");
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("mesh " << mesh << ", seed " << seed);
    check_random_plan(seed, sharding::DeviceMesh::parse(mesh));
  }
}
