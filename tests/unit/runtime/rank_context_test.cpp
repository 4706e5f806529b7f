// Graphs of several shapes on one rank: its communicators, constants and states serve all of them.

#include "runtime/rank_context.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "runtime/rank_run.h"
#include "unit/runtime/graph_sketch.h"
#include "unit/runtime/loops.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;

constexpr int ranks = 3;
constexpr std::chrono::seconds timeout{60};

/// The sum of all ranks' `x`, times weights, added to a state.
Graph shape_of(std::int64_t rows, const Tensor& weights) {
  Builder b;
  const ValueId x = b.input("x", {rows, 64});
  const ValueId total = b.input("total", {1, 64});
  std::vector<std::int64_t> group;
  for (int r = 0; r < ranks; ++r) group.push_back(r);
  const ValueId sum = b.node("AllReduce", {x}, {rows, 64},
                             {{"reduce", std::string("sum")},
                              {"mesh_axes", std::vector<std::int64_t>{0}},
                              {"ranks", group}});
  b.graph.nodes.back().domain = graph::collective_domain;
  const ValueId product =
      b.node("MatMul", {sum, b.graph.add_constant("weights", weights)}, {rows, 64});
  const ValueId axis = b.graph.add_constant("axis", Tensor::of_int64({1}, {{0}}));
  const ValueId column = b.node("ReduceSum", {product, axis}, {1, 64});
  b.graph.outputs = {product, b.node("Add", {total, column}, {1, 64})};
  b.graph.states = {{1, 1}};
  return b.graph;
}

TEST_CASE("graphs of several shapes take turns on each rank's communicators, weights and states") {
  // A permutation of columns, so that all numbers are whole.
  Tensor weights = Tensor::zeros(DataType::float32, {64, 64});
  auto* numbers = reinterpret_cast<float*>(weights.mutable_bytes().data());
  for (std::size_t i = 0; i < 64; ++i) numbers[i * 64 + (i + 1) % 64] = 1;

  const std::vector<std::int64_t> turns = {5, 1, 2, 1, 5};
  std::vector<std::string> wrong;
  std::mutex mutex;
  const auto expect = [&](bool is_so, const std::string& what) {
    const std::lock_guard lock(mutex);
    if (!is_so) wrong.push_back(what);
  };
  Ranks::in_threads(ranks, timeout)
      .run_as_rank([&](HostCommunicator& world, const LocalRanks& local) {
        RankContext rank({.threads = 1}, world, local, timeout);
        rank.make_states({{"Add3_out", "total", DataType::float32, {1, 64}}});
        std::map<std::int64_t, std::unique_ptr<RankRun>> runs;
        double total = 0;
        for (const std::int64_t rows : turns) {
          auto& run = runs[rows];
          if (!run) run = std::make_unique<RankRun>(shape_of(rows, weights), rank);
          // All that a rank sends is one number, which grows with its own.
          const std::vector<double> in(static_cast<std::size_t>(rows * 64), world.rank() + rows);
          run->write_inputs({{"x", {tensor_of(DataType::float32, {rows, 64}, in)}}});
          run->run(RankRun::States::handed_on);
          const auto sum = static_cast<double>(ranks * rows + 3);
          total += static_cast<double>(rows) * sum;
          const auto out = doubles(run->executable().read_output(0));
          expect(out == std::vector<double>(out.size(), sum), "the product");
          expect(doubles(rank.states()->read(0)) == std::vector<double>(64, total), "the state");
          if (rows == 2) runs.erase(5);
        }
        expect(rank.constants().further_form_bytes() == 0, "the weights' forms");
        expect(runs.at(1)->peak_bytes() ==
                   runs.at(1)->graph_bytes() + graph::constant_bytes(shape_of(1, weights)) + 256,
               "the peak");
      });
  CHECK(wrong.empty());
}

}  // namespace
}  // namespace autopar::runtime
