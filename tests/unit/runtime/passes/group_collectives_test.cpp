#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "runtime/collectives.h"
#include "runtime/comm/ranks.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/kernels/collective/collective_group.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"
#include "runtime/trace.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;
using graph::ValueId;
using Ints = std::vector<std::int64_t>;

constexpr int ranks = 3;

/// The CPU, with a kernel for groups.
class GroupingDevice final : public Device {
 public:
  const KernelTable& kernels() const override {
    static const KernelTable table = [] {
      KernelTable all = cpu_kernels();
      for (const OperatorLine& line : collective_operators())
        if (line.op_type == "CollectiveGroup")
          all.entries.push_back({line.domain, line.op_type, line.make});
      return all;
    }();
    return table;
  }
  bool shares_host_memory() const override { return true; }
  std::shared_ptr<std::byte> allocate(std::int64_t bytes) override { return cpu_.allocate(bytes); }
  void upload(std::span<const Upload> tensors) override { cpu_.upload(tensors); }
  void write(std::byte* to, std::span<const std::byte> from) override { cpu_.write(to, from); }
  void read(std::span<std::byte> to, const std::byte* from) override { cpu_.read(to, from); }
  std::unique_ptr<StridedCopies> make_strided_copies(std::vector<CopyLayout> layouts) override {
    return cpu_.make_strided_copies(std::move(layouts));
  }
  void fill(std::byte* to, std::byte value, std::int64_t bytes, void* stream) override {
    cpu_.fill(to, value, bytes, stream);
  }
  std::unique_ptr<Runner> make_runner(std::vector<Step> steps,
                                      CollectiveContext* collectives) override {
    return cpu_.make_runner(std::move(steps), collectives);
  }

 private:
  CpuDevice cpu_{1};
};

/// One rank's graph; all ranks build alike, with sizes of their own.
struct Builder {
  int rank = 0;
  Graph graph;

  ValueId value(const std::string& name, const Shape& shape) {
    return graph.add_value({name, DataType::float32, shape, std::nullopt});
  }
  ValueId input(const Shape& shape) {
    graph.inputs.push_back(value("in" + std::to_string(graph.inputs.size()), shape));
    return graph.inputs.back();
  }
  ValueId constant(const Shape& shape) {
    return graph.add_constant("c", Tensor::zeros(DataType::float32, shape));
  }
  const Shape& shape(ValueId id) const { return graph.value(id).shape; }
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs, const Shape& shape,
               std::map<std::string, Attribute> attributes = {}, const std::string& domain = {}) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId output = value(name + "_out", shape);
    graph.nodes.push_back({name, op_type, domain, inputs, {output}, std::move(attributes)});
    return output;
  }
  ValueId collective(const std::string& op_type, ValueId x, const Shape& shape,
                     std::map<std::string, Attribute> attributes = {}) {
    attributes["mesh_axes"] = Ints{0};
    attributes["ranks"] = Ints{0, 1, 2};
    return node(op_type, {x}, shape, std::move(attributes), graph::collective_domain);
  }
  ValueId all_reduce(ValueId x) { return collective("AllReduce", x, shape(x)); }
  std::int64_t last_dim(ValueId x) const { return static_cast<std::int64_t>(shape(x).size()) - 1; }
  ValueId all_gather(ValueId x, const Ints& sizes) {
    Shape gathered = shape(x);
    gathered.back() = sizes[0] + sizes[1] + sizes[2];
    return collective("AllGather", x, gathered, {{"dim", last_dim(x)}, {"sizes", sizes}});
  }
  ValueId reduce_scatter(ValueId x, const Ints& sizes) {
    Shape share = shape(x);
    share.back() = sizes[static_cast<std::size_t>(rank)];
    return collective("ReduceScatter", x, share, {{"dim", last_dim(x)}, {"sizes", sizes}});
  }
  ValueId negative(ValueId x) { return node("Neg", {x}, shape(x)); }
};

/// "Neg CollectiveGroup(AllReduce AllGather)".
std::string operators(const Graph& graph) {
  check_invariants(graph);
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + node.op_type;
    if (node.op_type != "CollectiveGroup") continue;
    std::string members;
    for (const graph::Node& member : members_of(node))
      members += (members.empty() ? "" : " ") + member.op_type;
    text += "(" + members + ")";
  }
  return text;
}

std::string grouped(Builder& b) {
  passes::group_collectives(b.graph);
  return operators(b.graph);
}

TEST_CASE("Collectives whose inputs are made before the first of them are hoisted next to it") {
  Builder b;
  const ValueId x = b.input({6});
  const ValueId y = b.negative(x);
  const ValueId a = b.all_reduce(x);
  const ValueId from_a = b.negative(a);
  const ValueId c = b.all_gather(y, {6, 6, 6});
  const ValueId d = b.reduce_scatter(x, {2, 2, 2});
  b.graph.outputs = {from_a, c, b.negative(d)};
  CHECK(grouped(b) == "Neg CollectiveGroup(AllReduce AllGather ReduceScatter) Neg Neg");
  const graph::Node& group = b.graph.nodes[1];
  CHECK(group.inputs == std::vector<ValueId>{x, y, x});
  CHECK(group.outputs == std::vector<ValueId>{a, c, d});
  CHECK(group.name == "AllReduce1");
  const auto members = members_of(group);
  CHECK(members[1].name == "AllGather3");
  CHECK(members[1].ints_attribute("sizes", {}) == Ints{6, 6, 6});
  CHECK(members[2].ints_attribute("ranks", {}) == Ints{0, 1, 2});
}

TEST_CASE("A collective of what is made behind the first one begins a group of its own") {
  Builder b;
  const ValueId x = b.input({6});
  const ValueId a = b.all_reduce(x);
  const ValueId late = b.negative(x);
  const ValueId c = b.all_reduce(late);
  const ValueId d = b.all_reduce(late);
  const ValueId e = b.all_reduce(c);
  b.graph.outputs = {a, d, e};
  CHECK(grouped(b) == "AllReduce Neg CollectiveGroup(AllReduce AllReduce) AllReduce");
}

TEST_CASE("Collectives of constants, and those that nothing reads, stay and end a group") {
  Builder b;
  const ValueId x = b.input({6});
  const ValueId a = b.all_reduce(x);
  const ValueId weight = b.all_gather(b.constant({2}), {2, 2, 2});
  const ValueId c = b.all_reduce(x);
  b.all_reduce(x);
  const ValueId d = b.all_reduce(x);
  b.graph.outputs = {a, weight, c, d};
  CHECK(grouped(b) == "AllReduce AllGather AllReduce AllReduce AllReduce");
}

struct RankResult {
  std::vector<Tensor> outputs;
  std::vector<bundle::CollectiveTotal> counted;
  int groups = 0;
};

/// Runs every rank's graph on its inputs in a thread of its own.
std::vector<RankResult> run_all(const std::vector<Graph>& graphs,
                                const std::vector<std::vector<Tensor>>& inputs, bool optimize) {
  std::vector<RankResult> results(ranks);
  Ranks::in_threads(ranks, std::chrono::minutes(1))
      .run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
        const auto r = static_cast<std::size_t>(world.rank());
        GroupingDevice device;
        CollectiveContext collectives(world);
        Executable executable(
            graphs[r],
            {.threads = 1, .collectives = &collectives, .optimize = optimize, .device = &device});
        results[r].outputs = run(executable, graphs[r], inputs[r]);
        results[r].counted = collectives.totals();
        for (std::size_t i = 0; i < inputs[r].size(); ++i) executable.write_input(i, inputs[r][i]);
        for (const Span& span : executable.profile())
          if (span.op_type == "CollectiveGroup") ++results[r].groups;
      });
  return results;
}

/// The same structure on every rank, for one seed; local sizes differ.
Builder random_graph(unsigned seed, int rank) {
  std::mt19937 random(seed);
  Builder b{rank, {}};
  const Ints sizes{static_cast<std::int64_t>(random() % 40),
                   static_cast<std::int64_t>(random() % 3),
                   static_cast<std::int64_t>(random() % 7)};
  const std::int64_t rows = seed % 5 == 4 ? 0 : 3;
  std::vector<ValueId> whole{b.input({rows, sizes[0] + sizes[1] + sizes[2]})};
  std::vector<ValueId> local{b.input({rows, sizes[static_cast<std::size_t>(rank)]})};
  const auto any = [&](std::vector<ValueId>& of) { return of[random() % of.size()]; };
  for (int n = 0; n < 25; ++n) {
    switch (random() % 5) {
      case 0:
        whole.push_back(b.negative(any(whole)));
        break;
      case 1:
        local.push_back(b.negative(any(local)));
        break;
      case 2:
        whole.push_back(b.all_reduce(any(whole)));
        break;
      case 3:
        whole.push_back(b.all_gather(any(local), sizes));
        break;
      default:
        local.push_back(b.reduce_scatter(any(whole), sizes));
    }
  }
  for (const auto* values : {&whole, &local})
    for (const ValueId id : *values)
      if (random() % 3 == 0 && std::ranges::find(b.graph.inputs, id) == b.graph.inputs.end())
        b.graph.outputs.push_back(id);
  return b;
}

TEST_CASE("Ranks with uneven shards group alike, to the same results and bytes") {
  int groups = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::vector<Graph> graphs;
    std::vector<std::vector<Tensor>> inputs;
    std::mt19937 random(seed);
    for (int rank = 0; rank < ranks; ++rank) {
      graphs.push_back(random_graph(seed, rank).graph);
      std::vector<Tensor>& of_rank = inputs.emplace_back();
      for (const ValueId id : graphs.back().inputs)
        of_rank.push_back(
            random_in(DataType::float32, graphs.back().value(id).shape, random, -1, 1));
    }
    const auto plain = run_all(graphs, inputs, false);
    const auto optimized = run_all(graphs, inputs, true);
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(plain[r].groups == 0);
      CHECK(optimized[r].groups == optimized[0].groups);
      CHECK(optimized[r].counted == plain[r].counted);
      REQUIRE(optimized[r].outputs.size() == plain[r].outputs.size());
      for (std::size_t i = 0; i < plain[r].outputs.size(); ++i)
        CHECK(std::ranges::equal(optimized[r].outputs[i].bytes(), plain[r].outputs[i].bytes()));
    }
    groups += optimized[0].groups;
  }
  CHECK(groups > 20);
}

/// Gathers that are read one after another: grouped, all that they make is there at once. `extra`
/// is a value of this rank's own that takes much more.
Graph graph_of_gathers(int rank, std::int64_t extra) {
  Builder b{rank, {}};
  const ValueId x = b.input({1000});
  const ValueId y = b.input({extra});
  for (int i = 0; i < 8; ++i) {
    const ValueId gathered = b.all_gather(x, {1000, 1000, 1000});
    b.graph.outputs.push_back(b.node("ReduceSum", {gathered}, {1}));
  }
  b.graph.outputs.push_back(b.node("Concat", {y, y}, {2 * extra}, {{"axis", 0}}));
  return b.graph;
}

TEST_CASE("Where one rank's memory would not do for groups, no rank groups") {
  const bool has_room = GENERATE(true, false);
  std::vector<Graph> graphs;
  std::vector<std::vector<Tensor>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t extra = rank == 1 && !has_room ? 1 : 100000;
    graphs.push_back(graph_of_gathers(rank, extra));
    inputs.push_back(
        {Tensor::zeros(DataType::float32, {1000}), Tensor::zeros(DataType::float32, {extra})});
  }
  for (const RankResult& result : run_all(graphs, inputs, true))
    CHECK(result.groups == (has_room ? 1 : 0));
}

}  // namespace
}  // namespace autopar::runtime
