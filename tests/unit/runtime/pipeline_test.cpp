#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "base/error.h"
#include "graph/arena.h"
#include "pipeline_sketch.h"
#include "runtime/collectives.h"
#include "runtime/comm/ranks.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/passes/passes.h"
#include "runtime/trace.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using namespace std::chrono_literals;

/// Runs a function on every rank, a thread each. What it throws ends all and is thrown, a cause
/// before its consequences.
void on_ranks(int ranks, const std::function<void(HostCommunicator&)>& work,
              std::chrono::milliseconds timeout = 1min) {
  Ranks::in_threads(ranks, timeout).run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
    work(world);
  });
}

Tensor part_of(const Tensor& whole, const Box& box) { return whole.slice(box).contiguous_copy(); }

/// Inputs x, c and d of each microbatch.
std::vector<std::map<std::string, Tensor>> random_inputs(const PipelineSketch& sketch,
                                                         int microbatches, std::mt19937& random) {
  std::vector<std::map<std::string, Tensor>> inputs;
  for (int m = 0; m < microbatches; ++m) {
    auto& of_microbatch = inputs.emplace_back();
    for (const char* name : {"x", "c", "d"})
      of_microbatch[name] = random_in(DataType::float32, sketch.shape, random, -1, 1);
  }
  return inputs;
}

TEST_CASE("A pipeline gives what the whole graph gives, microbatch by microbatch, run after run") {
  const int microbatches = GENERATE(1, 2, 5);
  const bool optimize = GENERATE(false, true);
  CAPTURE(microbatches, optimize);
  std::mt19937 random(3);
  const PipelineSketch sketch;
  auto inputs = random_inputs(sketch, microbatches, random);
  // d is common to all microbatches.
  for (auto& of_microbatch : inputs) of_microbatch["d"] = inputs[0]["d"];
  const Graph whole = sketch.whole();
  Executable reference(whole, {.threads = 1});
  std::vector<std::vector<Tensor>> expected;
  for (const auto& each : inputs)
    expected.push_back(testing::run(reference, whole, {each.at("x"), each.at("c"), each.at("d")}));

  on_ranks(sketch.world_size(), [&](HostCommunicator& world) {
    CollectiveContext collectives(world);
    collectives.enter_stage(sketch.ranks);
    const Graph graph = sketch.of_rank(world.rank());
    check_invariants(graph);
    Executable executable(graph, {.threads = 1,
                                  .collectives = &collectives,
                                  .optimize = optimize,
                                  .microbatches = microbatches,
                                  .common_inputs = {"d"}});
    if (executable.arena_bytes() - executable.scratch_bytes() >
        graph::arena_bound(graph) + graph::slot_bytes(graph, microbatches))
      throw Error("more memory than predicted");
    const auto layout_of = [&](const std::string& name) -> const Layout& {
      return name == "x" ? sketch.first : name == "c" ? sketch.second : sketch.third;
    };
    for (int repetition = 0; repetition < 3; ++repetition) {
      for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const std::string& name = graph.value(graph.inputs[i]).name;
        for (int m = 0; m < microbatches; ++m)
          executable.write_input(i,
                                 part_of(inputs[static_cast<std::size_t>(m)].at(name),
                                         layout_of(name).at(world.rank())),
                                 m);
      }
      world.barrier();
      collectives.reset_totals();
      if (repetition == 1)
        executable.profile();
      else
        executable.run();
      for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        for (int m = 0; m < microbatches; ++m) {
          const Tensor part =
              part_of(expected[static_cast<std::size_t>(m)][i], sketch.third.at(world.rank()));
          if (doubles(executable.read_output(i, m)) != doubles(part))
            throw Error("rank " + std::to_string(world.rank()) + " computes something else");
        }
      world.barrier();
    }
    // 5 rows of 4 columns, three times, in one message each.
    if (world.rank() == 0 &&
        collectives.totals() != std::vector<bundle::CollectiveTotal>{
                                    {"send", {}, 3L * microbatches, 240L * microbatches}})
      throw Error("rank 0 counts something else");
    // 2 and 3 rows of 6 columns, of two values; the last rank gets nothing.
    if (world.rank() == 2 &&
        collectives.totals() != std::vector<bundle::CollectiveTotal>{
                                    {"send", {}, 4L * microbatches, 240L * microbatches}})
      throw Error("rank 2 counts something else");
  });
}

TEST_CASE("Inputs that microbatches have in common lie in one place, others in one each") {
  StageSketch s{0};
  const Layout all = split({5, 6}, 0, 0, {0, 5});
  const ValueId x = s.input("x", all);
  const ValueId d = s.input("d", all);
  s.graph.outputs = {s.node("Add", {x, d}, "y")};
  Executable executable(s.graph, {.threads = 1, .microbatches = 3, .common_inputs = {"d"}});
  for (int m = 1; m < 3; ++m) {
    CHECK(executable.input(0, m).data != executable.input(0, m - 1).data);
    CHECK(executable.input(1, m).data == executable.input(1, 0).data);
    CHECK(executable.output(0, m).data != executable.output(0, m - 1).data);
  }
}

TEST_CASE("Passes keep what is sent, and what is received and not read") {
  for (const int rank : {0, 2, 3}) {
    Graph graph = PipelineSketch{}.of_rank(rank);
    const auto count = [&] {
      return std::ranges::count(graph.nodes, graph::collective_domain, &graph::Node::domain);
    };
    const auto before = count();
    passes::optimize(graph, cpu_kernels(), {});
    check_invariants(graph);
    CHECK(count() == before);
    CHECK(std::ranges::count(graph.nodes, "Recv", &graph::Node::op_type) == (rank == 0   ? 0
                                                                             : rank == 2 ? 3
                                                                                         : 2));
  }
}

TEST_CASE("Slots are for what enters, leaves or goes between stages") {
  const Graph graph = PipelineSketch{}.of_rank(2);
  const auto slots_of = [&](int microbatches) {
    const std::vector<int> slots = graph::value_slots(graph, microbatches);
    std::map<std::string, int> by_name;
    for (std::size_t v = 0; v < slots.size(); ++v) by_name[graph.values[v].name] = slots[v];
    return by_name;
  };
  CHECK(slots_of(5) ==
        std::map<std::string, int>{{"c", 5}, {"h", 2}, {"n", 2}, {"unread", 2}, {"k", 2}});
  CHECK(slots_of(1) ==
        std::map<std::string, int>{{"c", 0}, {"h", 0}, {"n", 0}, {"unread", 0}, {"k", 0}});
  CHECK(graph::slot_bytes(graph, 1) == 0);
  CHECK(graph::slot_bytes(graph, 2) > 0);
  CHECK(graph::slot_bytes(graph, 5) - graph::slot_bytes(graph, 2) == 3 * 128);  // of c
}

/// A stage in the middle, of matrices and views of them: some come, some go, some do both.
Graph random_stage(std::mt19937& random) {
  const Layout from = split({8, 6}, 0, 0, {0, 8});
  const Layout here = split({8, 6}, 0, 1, {0, 8});
  const Layout to = split({8, 6}, 0, 2, {0, 8});
  StageSketch s{1};
  std::vector<ValueId> values;
  for (unsigned i = 0; i < 1 + random() % 2; ++i)
    values.push_back(s.input("in" + std::to_string(i), here));
  for (unsigned i = 0; i < random() % 3; ++i)
    values.push_back(s.receive("received" + std::to_string(i), from, here));
  const ValueId shape =
      s.graph.add_constant("shape", Tensor::of_int64({2}, std::vector<std::int64_t>{8, 6}));
  const auto any = [&] { return values[random() % values.size()]; };
  for (unsigned i = 0; i < random() % 15; ++i) {
    const std::string name = "v" + std::to_string(i);
    if (random() % 3 == 0) {
      const ValueId viewed = any();
      values.push_back(s.node("Reshape", {viewed, shape}, name));
    } else {
      values.push_back(s.node(random() % 2 ? "Tanh" : "Add", {any(), any()}, name));
      if (s.graph.nodes.back().op_type == "Tanh") s.graph.nodes.back().inputs.pop_back();
    }
  }
  for (unsigned i = 0; i < random() % 3; ++i) s.graph.outputs.push_back(any());
  std::vector<ValueId> sent;
  for (unsigned i = 0; i < random() % 4; ++i) {
    const ValueId id = any();
    if (std::ranges::find(sent, id) != sent.end()) continue;
    sent.push_back(id);
    s.send(id, here, to);
  }
  return s.graph;
}

TEST_CASE("No number of microbatches takes more memory than is predicted") {
  std::mt19937 random(9);
  auto worlds = make_thread_communicators(3, 1s);
  CollectiveContext collectives(*worlds[1]);
  collectives.enter_stage({{0}, {1}, {2}});
  for (int round = 0; round < 200; ++round) {
    Graph graph = random_stage(random);
    graph::remove_dead_nodes(graph);
    check_invariants(graph);
    for (const int microbatches : {1, 2, 3, 5})
      for (const bool optimize : {false, true}) {
        CAPTURE(round, microbatches, optimize);
        const Executable executable(graph, {.threads = 1,
                                            .collectives = &collectives,
                                            .optimize = optimize,
                                            .microbatches = microbatches});
        CHECK(executable.arena_bytes() - executable.scratch_bytes() <=
              graph::arena_bound(graph) + graph::slot_bytes(graph, microbatches));
      }
  }
}

ValueId all_reduce(StageSketch& s, ValueId id, const std::vector<std::int64_t>& ranks) {
  const ValueId output = s.node("AllReduce", {id}, s.graph.value(id).name + "_sum");
  s.graph.nodes.back().domain = graph::collective_domain;
  s.graph.nodes.back().attributes = {{"mesh_axes", std::vector<std::int64_t>{0}},
                                     {"ranks", ranks},
                                     {"reduce", std::string("sum")}};
  return output;
}

/// Rank 1 receives from rank 0, adds up with rank 2 and sends to rank 3. The other ranks are the
/// test's: they hold back their part in one microbatch until rank 1 has gone on to the next.
TEST_CASE("What arrives and what departs overlap with the work between") {
  constexpr int microbatches = 4;
  constexpr std::int64_t elements = 1000;
  const Shape shape = {elements};
  const std::vector<std::vector<int>> stages = {{0}, {1, 2}, {3}};
  const Layout from = split(shape, 0, 0, {0, elements});
  const Layout here = split(shape, 0, 1, {0, elements});
  const Layout to = split(shape, 0, 3, {0, elements});
  std::vector<std::promise<void>> has_arrived(microbatches + 1);
  std::vector<std::promise<void>> is_added(microbatches + 1);
  on_ranks(4, [&](HostCommunicator& world) {
    CollectiveContext collectives(world);
    collectives.enter_stage(stages);
    std::vector<float> data(elements);
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    const auto wait = [](std::promise<void>& promise) {
      if (promise.get_future().wait_for(30s) != std::future_status::ready)
        throw Error("there is no overlap");
    };
    switch (world.rank()) {
      case 0:
        for (int m = 0; m < microbatches; ++m) {
          std::ranges::fill(data, static_cast<float>(m));
          world.send(bytes, elements * 4, 1);  // until rank 1 has it
          has_arrived[static_cast<std::size_t>(m)].set_value();
        }
        has_arrived[microbatches].set_value();
        break;
      case 1: {
        StageSketch s{1};
        const ValueId x = s.receive("x", from, here);
        const ValueId sum = all_reduce(s, s.node("Neg", {x}, "n"), {1, 2});
        s.send(s.node("Neg", {sum}, "y"), here, to);
        Executable executable(
            s.graph, {.threads = 1, .collectives = &collectives, .microbatches = microbatches});
        executable.run();
        break;
      }
      case 2:
        for (int m = 0; m < microbatches; ++m) {
          // Microbatch m is not computed before the next one is there.
          wait(has_arrived[static_cast<std::size_t>(m) + 1]);
          std::ranges::fill(data, -100.F);
          collectives.group({1, 2}).all_reduce(bytes, bytes, elements, DataType::float32,
                                               ReduceOp::sum);
          is_added[static_cast<std::size_t>(m)].set_value();
        }
        is_added[microbatches].set_value();
        break;
      default:
        for (int m = 0; m < microbatches; ++m) {
          // Microbatch m does not depart before the next one has been worked on.
          wait(is_added[static_cast<std::size_t>(m) + 1]);
          world.receive(bytes, elements * 4, 1);
          if (data != std::vector<float>(elements, static_cast<float>(m + 100)))
            throw Error("wrong numbers");
        }
    }
  });
}

TEST_CASE("Messages go by rank whatever order nodes list them in, so that none waits in a circle") {
  const Shape shape{4, 4};
  const Layout columns = split(shape, 1, 0, {0, 2, 4});
  const Layout rows = split(shape, 0, 2, {0, 2, 4});
  std::mt19937 random(5);
  const Tensor whole = random_in(DataType::float32, shape, random, -1, 1);
  const auto turn_around = [](graph::Node& node) {
    auto peers = node.ints_attribute("peers", {});
    std::ranges::reverse(peers);
    node.attributes["peers"] = peers;
    for (const char* name : {"starts", "ends"}) {  // two numbers a message
      auto corners = node.ints_attribute(name, {});
      std::rotate(corners.begin(), corners.begin() + 2, corners.end());
      node.attributes[name] = corners;
    }
  };
  on_ranks(
      4,
      [&](HostCommunicator& world) {
        CollectiveContext collectives(world);
        collectives.enter_stage({{0, 1}, {2, 3}});
        const int rank = world.rank();
        StageSketch s{rank};
        if (rank < 2)
          s.send(s.node("Neg", {s.input("x", columns)}, "y"), columns, rows);
        else
          s.graph.outputs = {s.node("Neg", {s.receive("y", columns, rows)}, "z")};
        for (graph::Node& node : s.graph.nodes)
          if (node.domain == graph::collective_domain && (rank == 0 || rank == 3))
            turn_around(node);
        Executable executable(s.graph, {.threads = 1, .collectives = &collectives});
        if (rank < 2) executable.write_input(0, part_of(whole, columns.at(rank)), 0);
        executable.run();
        if (rank >= 2 &&
            doubles(executable.read_output(0, 0)) != doubles(part_of(whole, rows.at(rank))))
          throw Error("rank " + std::to_string(rank) + " got something else");
      },
      10s);
}

TEST_CASE("A stage that fails in the middle of a run ends all, and its error is the cause") {
  const PipelineSketch sketch;
  const auto work = [&](HostCommunicator& world) {
    CollectiveContext collectives(world);
    collectives.enter_stage(sketch.ranks);
    if (world.rank() == 2) {
      std::vector<std::byte> bytes(80);
      world.receive(bytes.data(), 80, 0);
      throw Error("the cause");
    }
    const Graph graph = sketch.of_rank(world.rank());
    Executable executable(graph, {.threads = 1, .collectives = &collectives, .microbatches = 3});
    try {
      executable.run();
    } catch (const GivenUp&) {
      throw;
    } catch (const Error& error) {
      throw Error(std::string("no consequence: ") + error.what());
    }
    if (!sketch.third.contains(5) || world.rank() != 5) throw Error("a rank goes on");
  };
  CHECK_THROWS_WITH(on_ranks(sketch.world_size(), work), "the cause");
}

TEST_CASE("A stage that is not there ends the others at the timeout") {
  const PipelineSketch sketch;
  const auto work = [&](HostCommunicator& world) {
    CollectiveContext collectives(world);
    collectives.enter_stage(sketch.ranks);
    if (world.rank() < 3) return;
    Executable executable(sketch.of_rank(world.rank()),
                          {.threads = 1, .collectives = &collectives, .microbatches = 2});
    executable.run();
  };
  CHECK_THROWS_WITH(on_ranks(sketch.world_size(), work, 100ms),
                    Catch::Contains("a receive waited 100 ms for rank(s) 2"));
}

TEST_CASE("Profiles tell lanes and microbatches, in the order of steps") {
  const PipelineSketch sketch;
  std::vector<std::vector<Span>> by_rank(6);
  on_ranks(sketch.world_size(), [&](HostCommunicator& world) {
    CollectiveContext collectives(world);
    collectives.enter_stage(sketch.ranks);
    Executable executable(
        sketch.of_rank(world.rank()),
        {.threads = 1, .collectives = &collectives, .optimize = false, .microbatches = 2});
    by_rank[static_cast<std::size_t>(world.rank())] = executable.profile();
  });
  std::string text;
  for (const Span& span : by_rank[2]) {
    text += span.node + std::to_string(static_cast<int>(span.queue)) +
            std::to_string(span.microbatch) + " ";
    CHECK(span.bytes == (span.op_type == "Send" ? std::optional<std::int64_t>(120) : std::nullopt));
  }
  CHECK(text ==
        "h:Recv20 n:Recv20 unread:Recv20 k:Add00 k:Send30 n:Send30 "
        "h:Recv21 n:Recv21 unread:Recv21 k:Add01 k:Send31 n:Send31 ");
}

TEST_CASE("Messages that do not fit their tensor or their stage are refused") {
  const PipelineSketch sketch;
  const auto refusal = [&](int rank, const std::function<void(graph::Node&)>& spoil) {
    std::string text;
    auto worlds = make_thread_communicators(6, 1s);
    CollectiveContext collectives(*worlds[static_cast<std::size_t>(rank)]);
    collectives.enter_stage(sketch.ranks);
    Graph graph = sketch.of_rank(rank);
    for (graph::Node& node : graph.nodes)
      if (node.domain == graph::collective_domain) spoil(node);
    try {
      Executable executable(graph, {.threads = 1, .collectives = &collectives});
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  using Ints = std::vector<std::int64_t>;
  CHECK_THAT(refusal(2,
                     [](graph::Node& node) {
                       node.attributes["starts"] = Ints{0, 0};
                     }),
             Catch::Contains("'h:Recv'") && Catch::Contains("do not fit"));
  CHECK_THAT(refusal(2,
                     [](graph::Node& node) {
                       node.attributes["ends"] = Ints{5, 6, 5, 6};
                     }),
             Catch::Contains("outside of its tensor") || Catch::Contains("overlap"));
  CHECK_THAT(refusal(2,
                     [](graph::Node& node) {
                       node.attributes["peers"] = Ints{0, 4};
                     }),
             Catch::Contains("rank 2 receives from rank 4, which is not of the stage before"));
  CHECK_THAT(refusal(0, [](graph::Node& node) { node.attributes["peers"] = Ints{3}; }),
             Catch::Contains("rank 0 sends to rank 3"));
}

}  // namespace
}  // namespace autopar::runtime
